#!/bin/bash
# bench/peer/build.sh DIR: compiles ggml_products.cc into DIR/bin, for slotstream-bench --peer DIR.
# DIR/src is a llama.cpp source tree, DIR/bin has its built programs and shared libraries.
set -euo pipefail
dir=$1
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$dir/bin" && pwd -P)
"${CXX:-g++}" -O2 -std=c++17 -Wall "$here/ggml_products.cc" -I"$dir/src/ggml/include" -L"$bin" \
  -lggml -lggml-base -lggml-cpu -Wl,-rpath,"$bin" -pthread -o "$bin/ggml_products"
