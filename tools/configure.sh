#!/bin/bash
# tools/configure.sh BUILD_DIR [CMAKE_FLAGS...]: runs cmake once, with ccache where it is installed.
set -euo pipefail
build=$1
shift
if [[ $# -eq 0 && -e $build/build.ninja ]]; then exit 0; fi
launcher=()
if command -v ccache > /dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$(dirname "$0")/.." -B "$build" -G Ninja "${launcher[@]}" "$@"
