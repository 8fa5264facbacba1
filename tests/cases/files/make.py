"""Writes the checkpoints of the cases: one that is sound, and others that each have one fault.

Only headers are read when a recipe is checked, so all data is zero, but for a head that is held against an embedding. Run it here, with Python's standard library alone.
"""
import json, math, pathlib, struct


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


SIZES = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I64": 8}


def save(path, shapes, dtypes={}, cut=0, ones=None):
    header, data = {}, b""
    for name, shape in shapes.items():
        start, dtype = len(data), dtypes.get(name, "BF16")
        data += bytes([name == ones]) * (math.prod(shape) * SIZES[dtype])
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    path = pathlib.Path(path)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[: len(data) - cut])


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
matrices = [name for name, shape in sound.items() if len(shape) == 2]
scales = {f"{name}_scale_inv": [1, 1] for name in matrices}
float8 = {name: "F8_E4M3" for name in matrices} | {name: "F32" for name in scales}
save("fp8/model.safetensors", sound | scales, float8)
save("fp8_no_scales/model.safetensors", sound, float8)
save("int64/model.safetensors", sound, {"model.norm.weight": "I64"})
save("qk_norm/model.safetensors", sound | {f"model.layers.{i}.self_attn.{n}_norm.weight": [4] for i in (0, 1) for n in "qk"})
save("singular/model.safetensors", {k.replace("layers.1.mlp.", "layers.1.moe."): v for k, v in sound.items()})
save("shape/model.safetensors", sound | {"lm_head.weight": [16, 4]})
save("tied/model.safetensors", sound)
save("tied_other/model.safetensors", sound, ones="lm_head.weight")
save("tied_alone/model.safetensors", but("lm_head"))
save("bias/model.safetensors", sound | {"model.layers.1.mlp.gate.e_score_correction_bias": [4]})
save("missing_expert/model.safetensors", but("experts.3"))
stacked = {f"model.layers.1.mlp.experts.{n}": s for n, s in (("gate_up_proj", [4, 16, 8]), ("down_proj", [4, 8, 8]))}
save("stacked/model.safetensors", but("experts.") | stacked)
small = "model.norm"
shards("sharded", [but(small), {k: v for k, v in sound.items() if small in k}])
shards("stale_index", [but(small), {k: v for k, v in sound.items() if small in k}], lambda n: n.replace("-of-00002", "-of-00030"))
save("half/model.safetensors", sound | {"lm_head.weight": [16, 4]}, {"lm_head.weight": "U8"})
turned = {f"model.layers.1.mlp.experts.{n}_proj": [4, *s] for n, s in (("gate", [8, 6]), ("up", [8, 6]), ("down", [6, 8]))}
save("transposed/model.safetensors", but("experts.") | turned)
shards("twice", [but(small), {k: v for k, v in sound.items() if small in k or "lm_head" in k}])
shards("no_index", [but(small), {k: v for k, v in sound.items() if small in k}])
pathlib.Path("no_index/model.safetensors.index.json").unlink()
for folder, content in (
    ("web_page", b"<!DOCTYPE html><html><title>401 Unauthorized</title></html>"),
    ("pickle", b"\x80\x02}q\x00(X\x12\x00\x00\x00model.norm.weightq\x01"),
    ("empty", b""),
):
    pathlib.Path(folder).mkdir(exist_ok=True)
    pathlib.Path(f"{folder}/model.safetensors").write_bytes(content)
pathlib.Path("lfs").mkdir(exist_ok=True)
pathlib.Path("lfs/model.safetensors").write_text(
    "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4070000000\n"
)
