#!/bin/bash
# tests/python.sh VENV: an environment with tests/requirements.txt, reused while they are the same.
set -euo pipefail
venv=$1
requirements=$(dirname "$0")/requirements.txt
if cmp -s "$requirements" "$venv/requirements.txt"; then exit 0; fi
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"
cp "$requirements" "$venv/requirements.txt"
