"""Loads a checkpoint to f32 with transformers, as `cargo bench --bench weights` does; prints one JSON line.

Where types are equal transformers maps the file and reads nothing: every page is touched, so that the weights are there.

    load.py FOLDER [TIMES]
"""

import json
import os
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM

folder, times = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
size = sum(f.stat().st_size for f in os.scandir(folder) if f.name.endswith(".safetensors"))
best = float("inf")
for _ in range(times):
    started = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.detach().flatten()[:: 4096 // parameter.element_size()].sum()
    best = min(best, time.perf_counter() - started)
    del model
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"engine": "transformers", "seconds": best, "gb_per_second": size / best / 1e9, "peak_rss_mib": peak}))
