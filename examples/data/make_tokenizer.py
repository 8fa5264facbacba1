#!/usr/bin/env python3
"""Train the example tokenizer: byte-level BPE of 4,096 tokens on every .txt file beside this script.

    pip install tokenizers==0.23.3
    python3 make_tokenizer.py

Output: `tokenizer.json` (Hugging Face format). Id 0 is <|endoftext|>, ids 1-256 are the bytes, the rest are
merges; every byte string can be encoded, so there is no unknown token. Two runs give byte-identical files.
"""

import math
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB, END_OF_TEXT = 4096, "<|endoftext|>"


def main():
    here = Path(__file__).parent
    documents = [d for f in sorted(here.glob("*.txt")) for d in f.read_text(encoding="utf-8").strip().split("\n\n\n")]

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.save(str(here / "tokenizer.json"))

    assert tokenizer.get_vocab_size() == VOCAB and tokenizer.token_to_id(END_OF_TEXT) == 0
    encoded = [e.ids for e in tokenizer.encode_batch(documents)]
    assert all(tokenizer.decode(ids) == text for ids, text in zip(encoded, documents))
    count = Counter(t for ids in encoded for t in ids)
    count[0] = len(documents)  # one end of text after each document
    total = sum(count.values())
    entropy = -sum(n / total * math.log(n / total) for n in count.values())
    size = sum(len(d.encode()) for d in documents)
    print(f"{len(documents)} documents, {total} tokens, {size / total:.3f} bytes per token")
    print(f"unigram entropy {entropy:.4f} nats per token, {len(count)} of {VOCAB} tokens used")


if __name__ == "__main__":
    main()
