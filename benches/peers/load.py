"""Loads a checkpoint with transformers, as `cargo bench --bench weights` does; prints one JSON line.

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
for dtype in [torch.float32] * times:
    started = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    best = min(best, time.perf_counter() - started)
    del model
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"engine": "transformers", "seconds": best, "gb_per_second": size / best / 1e9, "peak_rss_mib": peak}))
