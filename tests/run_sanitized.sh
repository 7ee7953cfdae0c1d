#!/bin/bash
# tests/run_sanitized.sh: the unit tests under address+undefined, then under thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
for sanitizers in address,undefined thread; do
  build=build-${sanitizers%%,*}
  tools/configure.sh "$build" -DSLOTSTREAM_SANITIZE=$sanitizers
  ninja -C "$build"
  ctest --test-dir "$build" -j2 --output-on-failure --progress
done
