#!/usr/bin/env bash
# Holds the tables behind the bindings against real headers: those of acl and HCCL that several releases of torch_npu carry, and with
# ASCEND_HOME_PATH set those of the installed CANN, operators included. Usage: check-headers.sh [FOLDER TO KEEP THE HEADERS IN]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kept=${1:-$here/../../target/cann-headers}
mkdir -p "$kept"
check=$(mktemp --suffix=.cpp)
trap 'rm -f "$check"' EXIT
header_check() { cargo run --quiet --manifest-path "$here/Cargo.toml" --example header_check -- "$@" >"$check"; }
compile() { "${CXX:-c++}" -std=c++17 -fsyntax-only -Wno-deprecated-declarations -Wno-invalid-offsetof "$@" "$check"; }

# fetch VERSION PYTHON PLATFORM SHA256: the headers of a wheel, nothing else of it.
fetch() {
    local folder="$kept/$1"
    [ -d "$folder/torch_npu/include" ] && return
    mkdir -p "$folder/wheel"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version "$2" --platform "$3" \
        --dest "$folder/wheel" "torch_npu==$1"
    echo "$4  $(echo "$folder"/wheel/*.whl)" | sha256sum --check --quiet
    python3 - "$folder" <<'PYTHON'
import glob, sys, zipfile
folder = sys.argv[1]
with zipfile.ZipFile(glob.glob(folder + "/wheel/*.whl")[0]) as wheel:
    for name in wheel.namelist():
        if name.endswith(".h") and ("third_party/acl/" in name or "third_party/hccl/" in name):
            wheel.extract(name, folder)
PYTHON
    rm -r "$folder/wheel"
}

fetch 2.14.0 311 manylinux_2_28_x86_64 7736f7d82cf9f16c7dfc4537f7e7c638153da760273a193455e70857f912189e
fetch 2.7.1 311 manylinux_2_28_x86_64 f785e2e2c75d4e4dc80c33e6f389d333deed021c7a015b91aa839df4fcec75de
fetch 2.5.1 311 manylinux2014_x86_64 9bfa98b8daf30444a979c1271900923cd5c4d59c5d0a65eee10683218e28dac2
fetch 2.1.0.post12 310 manylinux2014_x86_64 330707ca8e5cfb96f99703b4c774ad3ebf12172c98dd02f188b227f5b1fd4ace

for include in "$kept"/*/torch_npu/include; do
    version=$(basename "$(dirname "$(dirname "$include")")")
    header_check "$include/third_party/acl" "$include/third_party/hccl" --release "torch_npu $version"
    compile -I "$include" -I "$include/third_party/acl/inc" -I "$include/third_party/acl/inc/acl" -I "$include/third_party/hccl/inc"
    echo "torch_npu $version: the tables agree"
done
if [ -n "${ASCEND_HOME_PATH:-}" ]; then
    include="$ASCEND_HOME_PATH/include"
    header_check "$include"
    # Operators have a header each; acl.h and hccl.h include none of them.
    compile -I "$include" -I "$include/acl" $(find "$include/aclnnop" -name '*.h' -printf ' -include %p')
    echo "CANN of $ASCEND_HOME_PATH: the tables agree"
fi
