#!/usr/bin/env python3
"""slotstream-bench runs, and its rows are whole and sane; no figure is judged.

  bench_test.py BENCH SCRATCH
"""

import json
import pathlib
import subprocess
import sys

FIELDS = {"group": str, "name": str, "mode": str, "isa": str, "threads": int, "rows": int,
          "unit": str, "peer_name": str, "peer_types": dict, "rounds": int, "counted": int}
FIGURES = ("value", "roof", "ratio", "peer", "peer_ratio")
MODES = {"exact", "int8", "int15"}


def check(condition, message):
    if not condition:
        sys.exit(f"bench_test: {message}")


def rows_of(bench, scratch, *arguments):
    out = scratch / "rows.json"
    run = subprocess.run([bench, *arguments, "--quick", "--threads", "1,2", "--json", str(out)],
                         capture_output=True, text=True, timeout=300)
    check(run.returncode == 0, f"{arguments} failed: {run.stderr}")
    rows = json.loads(out.read_text())
    check(len(run.stdout.splitlines()) == len(rows) + 1, "the table is not the rows")
    for row in rows:
        for field, kind in FIELDS.items():
            check(isinstance(row[field], kind), f"{field} of {row}")
        for figure in FIGURES:
            check(row[figure] is None or isinstance(row[figure], (int, float)),
                  f"{figure} of {row}")
        check(row["value"] is not None, f"no value in {row}")
        check(row["value"] > 0 or row["name"] == "the rest of the token", f"value of {row}")
        if row["roof"]:
            check(abs(row["ratio"] - row["value"] / row["roof"]) < 1e-9, f"ratio of {row}")
    return rows


def test_kernels(bench, scratch):
    rows = rows_of(bench, scratch, "kernels")
    groups = {row["group"] for row in rows}
    check(groups == {"roof", "decode product", "prefill product", "expert product"}, str(groups))
    for group in groups - {"roof"}:
        found = {(row["mode"], row["threads"]) for row in rows if row["group"] == group}
        check(found == {(mode, threads) for mode in MODES for threads in (1, 2)}, str(found))
    check(all(row["roof"] for row in rows if row["group"] == "decode product"), "a roof is missing")


def test_forecast(bench, scratch):
    rows = rows_of(bench, scratch, "forecast", "--model", "models/miniature", "--memory-gb",
                   "0.2,0.3", "--pass", "16", "--prompt", "32", "--decode", "4", "--warm", "4")
    found = [(row["group"], row["name"]) for row in rows]
    check(found == [(size, name) for size in ("0.2 GB", "0.3 GB")
                    for name in ("decode", "  found in the pool", "prefill",
                                 "  read for a pass")], str(found))
    check(all(row["roof"] for row in rows if row["unit"] == "tokens/s"), "a forecast is missing")


def test_state(bench, scratch):
    rows = rows_of(bench, scratch, "state", "--dir", str(scratch))
    names = {row["name"] for row in rows if row["group"] == "state"}
    check(names == {"memory copy", "snapshot", "restore", "disk write", "save", "disk read",
                    "load", "load, hidden behind a pass as long"}, str(names))
    check(not list(scratch.glob("slotstream-bench-*")), "files are left")


def test_model(bench, scratch):
    rows = rows_of(bench, scratch, "model", "--model", "models/miniature", "--prompt", "16",
                   "--decode", "2")
    groups = {row["group"] for row in rows}
    check(groups == {"roof", "model prefill", "model decode", "busy neighbour", "thread scaling",
                     "decode part"}, str(groups))
    parts = [row for row in rows if row["group"] == "decode part" and row["threads"] == 1
             and row["mode"] == "exact"]
    total, rest, token = parts[-3:]
    check(abs(sum(row["value"] for row in parts[:-3]) - total["value"]) < 1e-9, "parts and sum")
    check(abs(total["value"] + rest["value"] - token["value"]) < 1e-9, "sum and token")


def test_errors(bench):
    for arguments, word in ((["model", "--model", "nowhere"], "nowhere"),
                            (["kernels", "--isa", "mmx"], "mmx"),
                            (["kernels", "--compute", "int3"], "int3"),
                            (["kernels", "--quick", "--peer", "nowhere"], "nowhere")):
        run = subprocess.run([bench, *arguments], capture_output=True, text=True, timeout=60)
        check(run.returncode == 1, f"{arguments} ended with {run.returncode}")
        check(word in run.stderr, f"{arguments}: {run.stderr}")


def main():
    bench, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
    test_kernels(bench, scratch)
    test_model(bench, scratch)
    test_state(bench, scratch)
    test_forecast(bench, scratch)
    test_errors(bench)
    print("bench_test: all passed")


if __name__ == "__main__":
    main()
