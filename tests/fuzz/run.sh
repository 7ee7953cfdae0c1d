#!/bin/bash
# tests/fuzz/run.sh [SECONDS]: builds the fuzzers with clang and runs each so long (default 60).
# What crashes one stays in build-fuzz/ as crash-*, and the corpora stay for the next run.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build-fuzz
CXX=${CXX:-clang++-19} tools/configure.sh $build -DCMAKE_BUILD_TYPE=Release \
  -DSLOTSTREAM_SANITIZE=address,undefined -DSLOTSTREAM_FUZZ=ON -DSLOTSTREAM_TESTS=OFF
ninja -C $build fuzz_requests fuzz_replies fuzz_http
cd $build
for target in requests replies http; do
  mkdir -p "corpus/$target"
  [[ -e corpus/$target/seed1 ]] || python3 ../tests/fuzz/seeds.py $target "corpus/$target"
  tests/fuzz/fuzz_$target -max_total_time="${1:-60}" -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
    -dict=../tests/fuzz/words.dict -print_final_stats=1 "corpus/$target" 2>&1 |
    grep -E "^stat::|ERROR|SUMMARY|DONE|runtime error|no honest" || true
done
if compgen -G "crash-*" > /dev/null || compgen -G "timeout-*" > /dev/null; then
  echo "fuzzing found something: see $build/crash-* and timeout-*" >&2
  exit 1
fi
