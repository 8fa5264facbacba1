"""Makes `data/`: a tiny tokenizer, chat templates, conversations with the tokens and masks that `transformers` gives them,
and the same rows as Parquet and Arrow files. Needs transformers 5, datasets, tokenizers and pyarrow; run from this folder.
"""

import json
import pathlib
import shutil

import datasets
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

OUT = pathlib.Path("data")
TEXT = pathlib.Path("../../examples/data/persuasion.txt")
SPECIAL = ["<|end|>", "<|im_start|>", "<|im_end|>", "<|start|>", "<|sep|>", "<|bos|>"]

# ChatML with tools, tags that eat the white space around them.
CHATML = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- '# Tools' }}
    {%- for tool in tools %}
        {{- '\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- generation %}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\n<tool_call>' }}
            {{- {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
            {{- '</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\n<result>' + message.content + '</result><|im_end|>\n' }}
    {%- elif message.role != 'system' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""

# Headers, content trimmed, tags on lines of their own; earlier answers lose their reasoning.
HEADERS = r"""{{ bos_token }}{% set ns = namespace(last=-1) %}
{% for message in messages %}
    {% if message['role'] == 'user' %}
        {% set ns.last = loop.index0 %}
    {% endif %}
{% endfor %}
{% for message in messages %}
    {% set content = message['content'] %}
    {% if message['role'] == 'assistant' and '</think>' in content and loop.index0 < ns.last %}
        {% set content = content.split('</think>')[-1] %}
    {% endif %}
<|start|>{{ message['role'] }}<|sep|>
    {% if message['role'] == 'assistant' %}
    {% generation %}
{{ content | trim }}<|end|>{% endgeneration %}

    {% else %}
{{ content | trim }}<|end|>
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|start|>assistant<|sep|>
{% endif %}
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place — now.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    }
]

PLAIN = [
    [("user", "Who was Anne Elliot?"), ("assistant", "The second daughter of Sir Walter.")],
    [
        ("system", "Answer in few words."),
        ("user", "Where do they live?"),
        ("assistant", "At Kellynch Hall."),
        ("user", "Where is that?"),
        ("assistant", "In Somersetshire."),
    ],
    [("user", "  Wie geht's? 😀  "), ("assistant", "  Gut, danke — and you?  \n")],
    [
        ("user", "One and one?"),
        ("assistant", "<think>\n1 + 1\n</think>\n\nTwo."),
        ("user", "And one more?"),
        ("assistant", "<think>\n2 + 1\n</think>\n\nThree."),
    ],
    [("user", "Say it twice."), ("assistant", "Two."), ("user", "Again."), ("assistant", "Two.")],
    [("user", "Say\nlines."), ("assistant", "one\n\ntwo\n")],
]

CALLS = [
    {"role": "system", "content": "You may look it up."},
    {"role": "user", "content": "Is it raining in Bath?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"place": "Bath", "days": 1}}}],
    },
    {"role": "tool", "content": '{"rain": true}'},
    {"role": "assistant", "content": "It is."},
]


def tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token in SPECIAL]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train([str(TEXT)], trainer)
    return tokenizer


def unmarked(template):
    """The same template without the tags that mark what is generated, with the same white space."""
    template = template.replace("{%- generation %}", "{%- if true %}{%- endif %}")
    template = template.replace("{%- endgeneration %}", "{%- if true %}{%- endif %}")
    for tag in ["{% generation %}", "{% endgeneration %}"]:
        template = template.replace(tag, "{% if true %}{% endif %}")
    return template


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    trained = tokenizer()
    trained.save(str(OUT / "tokenizer.json"))
    config = {"bos_token": "<|bos|>", "eos_token": "<|end|>"}
    (OUT / "tokenizer_config.json").write_text(json.dumps(config))
    fast = PreTrainedTokenizerFast(tokenizer_object=trained, **config)

    plain = [{"messages": [{"role": role, "content": content} for role, content in chat]} for chat in PLAIN]
    called = [{"messages": CALLS, "tools": TOOLS}]
    for name, template, chats in [("chatml", CHATML, plain + called), ("headers", HEADERS, plain)]:
        (OUT / f"{name}.jinja").write_text(template)
        (OUT / f"{name}_unmarked.jinja").write_text(unmarked(template))
        golden = []
        for chat in chats:
            encoded = fast.apply_chat_template(
                chat["messages"],
                tools=chat.get("tools"),
                chat_template=template,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
            text = fast.apply_chat_template(
                chat["messages"], tools=chat.get("tools"), chat_template=unmarked(template), tokenize=False
            )
            assert fast(text, add_special_tokens=False)["input_ids"] == encoded["input_ids"]
            golden.append({"text": text, "ids": encoded["input_ids"], "mask": encoded["assistant_masks"]})
        lines = [json.dumps(item, ensure_ascii=False) for item in golden]
        (OUT / f"{name}.golden.jsonl").write_text("\n".join(lines) + "\n")
        lines = [json.dumps(chat, ensure_ascii=False) for chat in chats]
        (OUT / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    # The same conversations as columns, with columns that nobody needs around them.
    rows = {"id": list(range(len(plain))), "messages": [chat["messages"] for chat in plain], "score": [0.5] * len(plain)}
    pq.write_table(pa.table(rows), OUT / "chat.parquet", row_group_size=2, compression="zstd")
    pa.feather.write_feather(pa.table(rows), str(OUT / "chat.feather"), compression="lz4", chunksize=4)
    datasets.Dataset.from_dict(rows).save_to_disk(str(OUT / "chat_saved"))

    # Plain text: 40 documents of words that the tests' own tokenizer knows, one null.
    texts = [" ".join(f"w{1 + (i * 5 + w) % 99}" for w in range(1 + i % 7)) for i in range(40)]
    table = pa.table({"url": [f"u{i}" for i in range(40)], "text": texts, "meta": [{"a": i} for i in range(40)]})
    pq.write_table(table, OUT / "text.parquet", row_group_size=16)
    pq.write_table(pa.table({"text": texts[:3] + [None], "lang": ["en"] * 4}), OUT / "other_columns.parquet")
    pq.write_table(pa.table({"text": pa.nulls(0), "url": pa.nulls(0)}), OUT / "no_rows.parquet")
    pq.write_table(pa.table({"body": texts[:2]}), OUT / "no_text.parquet")
    pq.write_table(pa.table({"text": [1, 2]}), OUT / "numbers.parquet")
    with pa.OSFile(str(OUT / "text.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=16)


if __name__ == "__main__":
    main()
