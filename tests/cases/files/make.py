"""Writes the checkpoints of the cases: one that is sound, and others that each have one fault.

Only headers are read when a recipe is checked, so all data is zero. Run it here, with Python's standard library alone.
"""
import json, pathlib, struct


def tensors():
    shapes = {"model.embed_tokens.weight": [16, 8], "model.norm.weight": [8], "lm_head.weight": [16, 8]}
    for layer in range(2):
        at = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{at}{norm}.weight"] = [8]
        for name, rows in (("q", 8), ("k", 4), ("v", 4), ("o", 8)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = [rows, 8]
    for name, shape in (("gate", [16, 8]), ("up", [16, 8]), ("down", [8, 16])):
        shapes[f"model.layers.0.mlp.{name}_proj.weight"] = shape
    shapes["model.layers.1.mlp.gate.weight"] = [4, 8]
    for expert in range(4):
        for name in ("gate", "up", "down"):
            shapes[f"model.layers.1.mlp.experts.{expert}.{name}_proj.weight"] = [8, 8]
    return shapes


def save(path, shapes, dtype="BF16", size=2, cut=0):
    header, end = {}, 0
    for name, shape in shapes.items():
        start, count = end, 1
        for n in shape:
            count *= n
        end = start + count * size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    path = pathlib.Path(path)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end - cut))


def shards(folder, parts, listed=None):
    count = len(parts)
    names = [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
    for name, part in zip(names, parts):
        save(f"{folder}/{name}", part)
    where = {tensor: name for name, part in zip(names, parts) for tensor in part}
    index = {"metadata": {}, "weight_map": {t: (listed or (lambda n: n))(n) for t, n in where.items()}}
    pathlib.Path(f"{folder}/model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


sound = tensors()
but = lambda *names: {k: v for k, v in sound.items() if not any(name in k for name in names)}
save("model/model.safetensors", sound)
save("truncated/model.safetensors", sound, cut=900)
save("fp8/model.safetensors", sound, "F8_E4M3", 1)
save("qk_norm/model.safetensors", sound | {f"model.layers.{i}.self_attn.{n}_norm.weight": [4] for i in (0, 1) for n in "qk"})
save("singular/model.safetensors", {k.replace("layers.1.mlp.", "layers.1.moe."): v for k, v in sound.items()})
save("shape/model.safetensors", sound | {"lm_head.weight": [16, 4]})
save("tied/model.safetensors", sound)
save("missing_expert/model.safetensors", but("experts.3"))
stacked = {f"model.layers.1.mlp.experts.{n}": s for n, s in (("gate_up_proj", [4, 16, 8]), ("down_proj", [4, 8, 8]))}
save("stacked/model.safetensors", but("experts.") | stacked)
small = "model.norm"
shards("sharded", [but(small), {k: v for k, v in sound.items() if small in k}])
shards("stale_index", [but(small), {k: v for k, v in sound.items() if small in k}], lambda n: n.replace("-of-00002", "-of-00030"))
pathlib.Path("lfs").mkdir(exist_ok=True)
pathlib.Path("lfs/model.safetensors").write_text(
    "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4070000000\n"
)
