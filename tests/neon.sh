#!/bin/bash
# tests/neon.sh BUILD_DIR: the kernels' tests for arm64, cross-compiled and run under qemu.
#
# Debian packages: g++-aarch64-linux-gnu qemu-user libhwy-dev libfmt-dev googletest. NEON is part of
# every arm64 processor, so this is what an arm64 machine runs; the golden hashes in golden_test.cc
# tie its bits to those of x86-64.
set -euo pipefail

[[ $# -eq 1 ]] || { echo "usage: $0 BUILD_DIR" >&2; exit 2; }
source_dir=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
cd "$source_dir"

# Only the headers that do not depend on the architecture: /usr/include itself is x86-64's.
mkdir -p "$build/include"
for folder in hwy fmt gtest gmock; do
  ln -sfn "/usr/include/$folder" "$build/include/$folder"
done

launcher=$(command -v ccache || true)
compile() {  # compile SOURCE OBJECT FLAGS...
  local source=$1 object=$2
  shift 2
  $launcher aarch64-linux-gnu-g++ -std=c++23 -O2 -ffp-contract=off -isystem "$build/include" "$@" \
    -c "$source" -o "$build/$object"
}

objects=()
googletest=/usr/src/googletest
for source in googletest/src/gtest-all.cc googlemock/src/gmock-all.cc googletest/src/gtest_main.cc; do
  object=$(basename "$source" .cc).o
  folder=$googletest/${source%%/*}
  # Built once: the sources are Debian's.
  if [[ ! -e $build/$object ]]; then
    compile "$googletest/$source" "$object" -I"$folder"
  fi
  objects+=("$build/$object")
done
for source in src/base/result.cc src/checkpoint/panel.cc src/checkpoint/panel_test.cc \
  src/kernels/*.cc; do
  object=$(basename "$source" .cc).o
  compile "$source" "$object" -Isrc -DFMT_HEADER_ONLY \
    -Wall -Wextra -Wpedantic -Wshadow
  objects+=("$build/$object")
done

aarch64-linux-gnu-g++ -static "${objects[@]}" -o "$build/kernels_test"
qemu-aarch64 "$build/kernels_test" --gtest_brief=1
