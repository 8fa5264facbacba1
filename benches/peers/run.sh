#!/usr/bin/env bash
# Measure the PyTorch peers on this machine: one JSON line per run.
#
#   benches/peers/run.sh                     # 1, 2, 4 and 8 sequences per step; FSDP2 with 2 processes
#   SEQUENCES="4" STEPS=20 benches/peers/run.sh
#
# Installs requirements.txt into $PEERS_VENV (default: target/peers-venv, several GB) the first time.
set -euo pipefail
cd "$(dirname "$0")"

venv="${PEERS_VENV:-../../target/peers-venv}"
steps="${STEPS:-10}"
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1 # transparent huge pages: about 10 % faster steps for PyTorch
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false TORCH_CPP_LOG_LEVEL=ERROR

if [ ! -x "$venv/bin/torchrun" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --requirement requirements.txt
fi

for sequences in ${SEQUENCES:-1 2 4 8}; do
    "$venv/bin/python" torch_step.py --sequences "$sequences" --steps "$steps"
done

# The same batch as above, split over two processes of one thread each.
for sequences in ${SEQUENCES:-2 4 8}; do
    [ "$sequences" -ge 2 ] || continue
    OMP_NUM_THREADS=1 "$venv/bin/torchrun" --standalone --nproc-per-node 2 \
        torch_fsdp2.py --threads 1 --sequences $((sequences / 2)) --steps "$steps" 2>/dev/null | grep '^{'
done
