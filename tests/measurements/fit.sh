#!/bin/sh
# Tries values of one coefficient and prints how well each meets the fit half; the file is as before afterwards.
#
#   tests/measurements/fit.sh FRAGMENTATION 0.04 0.06 0.08 0.10
set -eu
cd "$(dirname "$0")/../.."
file=src/plan/estimate/coefficients.rs
name=$1
shift
kept=$(mktemp)
cp "$file" "$kept"
trap 'cp "$kept" "$file"; rm -f "$kept"' EXIT
for value in "$@"; do
    sed "s/\($name: f64 = \)[0-9.e]*/\1$value/" "$kept" >"$file"
    printf '%s = %s\n' "$name" "$value"
    cargo test --quiet --test it accuracy::fit -- --nocapture | grep score
done
