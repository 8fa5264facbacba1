#!/usr/bin/env bash
# stepc beside PyTorch on this machine, in one run: the laptop-size Step-3.5 in f32, same batch, same threads.
#
#   benches/peers/run.sh                     # 4 sequences of 512 tokens a step
#   SEQUENCES="1 4 8" STEPS=20 benches/peers/run.sh
#
# Installs requirements.txt into $PEERS_VENV (default: target/peers-venv, several GB) the first time. Prints one JSON line
# for each run and then the ratios; runs alternate, so that a machine whose speed drifts is fair to both.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv="${PEERS_VENV:-target/peers-venv}"
steps="${STEPS:-10}"
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1 # transparent huge pages: about 10 % faster steps for PyTorch
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false TORCH_CPP_LOG_LEVEL=ERROR

if [ ! -x "$venv/bin/torchrun" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --requirement benches/peers/requirements.txt
fi
bench=$(cargo bench --bench train --no-run 2>&1 | sed -n 's/.*(\(target[^)]*\)).*/\1/p')
results=$(mktemp)
trap 'rm -f "$results"' EXIT

both() { # name, then the two commands as strings
    for command in "$2" "$3"; do
        line=$($command 2>/dev/null | grep '^{')
        echo "$line"
        printf '%s\t%s\n' "$1" "$line" >>"$results"
    done
}

for sequences in ${SEQUENCES:-4}; do
    both "$sequences sequences, one process" \
        "$bench --sequences $sequences --steps $((steps + 2))" \
        "$venv/bin/python benches/peers/torch_step.py --sequences $sequences --steps $steps"
    [ "$sequences" -ge 2 ] || continue
    # Two ranks of one thread each; PyTorch has no expert parallelism in FSDP2, its experts are FSDP parameters.
    both "$sequences sequences, two ranks (fsdp 2, ep 2)" \
        "$bench --ranks 2 --sequences $sequences --steps $((steps + 2))" \
        "env OMP_NUM_THREADS=1 $venv/bin/torchrun --standalone --nproc-per-node 2 benches/peers/torch_fsdp2.py --threads 1 --sequences $((sequences / 2)) --steps $steps"
done

python3 - "$results" <<'PYTHON'
import json, sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
for (name, ours), (_, theirs) in zip(rows[::2], rows[1::2]):
    ours, theirs = json.loads(ours), json.loads(theirs)
    speed = ours["tokens_per_second"] / theirs["tokens_per_second"]
    memory = ours["peak_rss_mib"] / theirs["peak_rss_mib"]
    print(f"{name}: {speed:.2f} times the tokens a second, {memory:.2f} times the peak memory")
PYTHON
