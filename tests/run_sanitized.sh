#!/bin/bash
# tests/run_sanitized.sh [address|thread]: the unit tests under address+undefined and under thread
# sanitizer, then the real server under each while clients of all kinds, hostile ones too, ask it.
#
# The first report ends the process that it is about, and with it the run; what a server leaks is
# reported when it has stopped. PYTHON: an interpreter that has tests/requirements.txt (default: the
# one of build/venv, made here if need be).
set -euo pipefail
cd "$(dirname "$0")/.."

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
common="log_path=$reports/report:exitcode=66:halt_on_error=1"
export ASAN_OPTIONS="$common:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1"
export UBSAN_OPTIONS="$common:print_stacktrace=1"
export TSAN_OPTIONS="$common:second_deadlock_stack=1"
# Resident memory is the sanitizer's as well, so tests leave it alone.
export SLOTSTREAM_SANITIZED=1

check_reports() {  # STAGE: shows what any process reported, whether or not its test noticed
  local found
  found=$(find "$reports" -type f)
  if [[ -z $found ]]; then return; fi
  echo "== $1: reports of the sanitizers"
  cat "$reports"/*
  exit 1
}

stage() {  # stage NAME COMMAND...
  local name=$1 start=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  check_reports "$name"
  if [[ $status != 0 ]]; then exit "$status"; fi
  echo "== $name: $((SECONDS - start)) s"
}

if [[ -z ${PYTHON:-} ]]; then
  tests/python.sh build/venv
  PYTHON=build/venv/bin/python
fi

for kind in ${1:-address thread}; do
  build=build-$kind
  case $kind in
    address) sanitizers=address,undefined
             served="server_test hostile_test hostile_bodies_test structured_test load_test" ;;
    thread) sanitizers=thread served="server_test load_test" ;;
    *) echo "usage: tests/run_sanitized.sh [address|thread]"; exit 2 ;;
  esac
  stage "$kind: configure" tools/configure.sh "$build" -DSLOTSTREAM_SANITIZE=$sanitizers
  stage "$kind: build the program" ninja -C "$build" slotstream
  for test in $served; do
    stage "$kind: $test" "$PYTHON" "tests/$test.py" "$build/slotstream" "$build/scratch"
  done
  stage "$kind: build the unit tests" ninja -C "$build"
  stage "$kind: unit tests" ctest --test-dir "$build" -j2 --output-on-failure --progress
done
