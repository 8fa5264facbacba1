"""Tokenises and packs the pages of `cargo bench --bench data -- --keep FILE` with `datasets.map`; prints one JSON line.

    python data_map.py FILE [--threads N]

Two ways are measured, with processes and with the tokenizer's own threads; the better one is what counts.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--threads", type=int, default=os.cpu_count())
arguments = parser.parse_args()
os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
os.environ["HF_HUB_OFFLINE"] = "1"

import datasets  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

LENGTH = 4096
TOKENIZER = pathlib.Path(__file__).parents[2] / "examples/data/tokenizer.json"
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER))
eos = tokenizer.convert_tokens_to_ids("<|endoftext|>")


def tokenise_and_pack(batch):
    """As the examples of transformers do it: one list, cut every LENGTH tokens; the rest of a batch is dropped."""
    encoded = tokenizer(batch["text"], return_attention_mask=False, return_token_type_ids=False)
    ids = [token for document in encoded["input_ids"] for token in [*document, eos]]
    end = len(ids) - len(ids) % LENGTH
    sequences = [ids[at : at + LENGTH] for at in range(0, end, LENGTH)]
    return {"input_ids": sequences, "labels": sequences}


def run(processes, parallel):
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if parallel else "false"
    with tempfile.TemporaryDirectory() as cache:
        pages = datasets.load_dataset("json", data_files=arguments.file, split="train", cache_dir=cache)
        started = time.perf_counter()
        packed = pages.map(
            tokenise_and_pack,
            batched=True,
            num_proc=processes,
            remove_columns=pages.column_names,
            cache_file_name=os.path.join(cache, "packed.arrow"),
        )
        seconds = time.perf_counter() - started
        return len(packed) * LENGTH / seconds


datasets.disable_progress_bars()
rates = {"processes": run(arguments.threads, False), "threads": run(None, True)}
print(json.dumps({"threads": arguments.threads} | {f"tokens_per_second_{way}": round(rate) for way, rate in rates.items()}))
