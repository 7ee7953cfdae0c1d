#!/bin/bash
# tools/configure.sh BUILD_DIR [CMAKE_FLAGS...]: runs cmake once, with ccache where it is installed;
# clones in other folders share its cache.
set -euo pipefail
build=$1
shift
if [[ $# -eq 0 && -e $build/build.ninja ]]; then exit 0; fi
launcher=()
if command -v ccache > /dev/null; then
  source=$(cd "$(dirname "$0")/.." && pwd)
  launcher=("-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_BASEDIR=$source;CCACHE_NOHASHDIR=1;ccache")
fi
cmake -S "$(dirname "$0")/.." -B "$build" -G Ninja "${launcher[@]}" "$@"
