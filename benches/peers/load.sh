#!/usr/bin/env bash
# Loading a checkpoint from the page cache: stepc with 4 ranks beside `cat` to /dev/null and transformers, in turn.
#
#   benches/peers/load.sh                    # 4 GiB of bf16
#   GIB=1 DTYPE=f32 benches/peers/load.sh
#
# Python is that of $PEERS_VENV (see run.sh). Prints a JSON line for each; the best of five runs counts.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv="${PEERS_VENV:-target/peers-venv}"
folder="$PWD/target/tmp/weights-${GIB:-4}-${DTYPE:-bf16}"
load() { cargo bench --quiet --bench weights -- --gib "${GIB:-4}" --dtype "${DTYPE:-bf16}" --folder "$folder" "$@"; }

load --times 1 >/dev/null # makes the checkpoint
best=
for _ in 1 2 3 4 5; do
    start=$EPOCHREALTIME
    cat "$folder"/*.safetensors >/dev/null
    took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
    best=$(awk -v a="$took" -v b="${best:-9e9}" 'BEGIN { print (a < b ? a : b) }')
done
size=$(cat "$folder"/*.safetensors | wc -c)
awk -v s="$best" -v n="$size" 'BEGIN { printf "{\"engine\":\"cat\",\"seconds\":%.3f,\"gb_per_second\":%.2f}\n", s, n / s / 1e9 }'
load
load --ranks 1 --times 1
"$venv/bin/python" benches/peers/load.py "$folder"
