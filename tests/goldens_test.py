#!/usr/bin/env python3
"""Compares the program's logits with goldens: other geometries, tiny-a and the miniature.

    goldens_test.py SLOTSTREAM SCRATCH [--hidden] [--mtp] [--only NAME ...]

Every case runs `SLOTSTREAM logits --model DIR --ids-file FILE --out OUT.safetensors`. OUT holds
`logits` [n, vocab] float32, one row per id. A case passes when at every golden position the
relative L2 error is at most TOLERANCE, and the best id is the golden's wherever that leads by more
than CLEAR_LEAD. With --hidden, `hidden` [layers, n, streams * hidden], the residual streams after
each layer, must agree too where the golden has it; with --mtp, so must `mtp_logits` [n - 1, vocab],
the draft head's prediction of id i + 2 from position i.

The checkpoints of tests/goldens/geometries are written to SCRATCH first, by
tools/make_checkpoint.py from each geometry.json. Exits 1 when a case fails.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "goldens"
sys.path.insert(0, str(ROOT / "tools"))
import make_checkpoint  # noqa: E402

# Two correct float32 implementations differ by up to about 7e-6 here (order of sums); a value
# rounded to bfloat16 anywhere costs over 1e-2.
TOLERANCE = 2e-5
CLEAR_LEAD = 1e-3


class CaseError(Exception):
    """Why a case cannot be compared at all."""


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    dtypes = {"F32": "<f4", "I32": "<i4"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        tensors[name] = np.frombuffer(raw, dtypes[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def relative_errors(rows, golden):
    """Relative L2 error of every row (last axis); infinite where a value is not finite."""
    rows, golden = rows.astype(np.float64), golden.astype(np.float64)
    difference = np.sqrt(((rows - golden) ** 2).sum(-1))
    errors = difference / np.sqrt((golden**2).sum(-1))
    return np.where(np.isfinite(errors), errors, np.inf)


def wrong_best_ids(logits, golden):
    """Rows whose best id differs from the golden's clear one."""
    runner_up, best = np.sort(golden, -1)[:, -2:].T
    return (best - runner_up > CLEAR_LEAD) & (logits.argmax(-1) != golden.argmax(-1))


class Case:
    """A model directory, a golden file, and the rows of each output that the golden holds."""

    def __init__(self, name, model, golden, strides, geometry=None):
        self.name = name
        self._model = model
        self._golden = golden
        self._strides = strides  # output -> every how many-th row, where no positions are given
        self._geometry = geometry  # of a checkpoint to be written first

    def run(self, binary, scratch, outputs):
        """Returns (ok, one line of findings)."""
        golden = read_safetensors(self._golden)
        if self._geometry is not None:
            geometry = json.loads(self._geometry.read_text())
            digests = make_checkpoint.write_checkpoint(geometry, self._model)
            make_checkpoint.check_digests(geometry, digests)
        actual = self._run_program(binary, scratch, golden["ids"], outputs)
        ok, findings = True, []
        for output in outputs:
            if output in golden:
                good, text = self._compare(output, actual, golden)
                ok = ok and good
                findings.append(text)
        return ok, "; ".join(findings)

    def _run_program(self, binary, scratch, ids, outputs):
        ids_file = scratch / f"{self.name}.ids"
        out = scratch / f"{self.name}.safetensors"
        ids_file.write_text(",".join(str(i) for i in ids))
        out.unlink(missing_ok=True)
        command = [binary, "logits", "--model", self._model, "--ids-file", ids_file, "--out", out,
                   "--compute", "exact"]
        command += ["--hidden"] if "hidden" in outputs else []
        command += ["--mtp"] if "mtp_logits" in outputs else []
        result = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if result.returncode != 0:
            message = result.stderr.strip().splitlines()[-1:] or ["(no message)"]
            raise CaseError(f"exit status {result.returncode}: {message[0]}")
        return read_safetensors(out)

    def _positions(self, output, golden, rows):
        key = {"logits": "positions", "hidden": "hidden_positions", "mtp_logits": "mtp_positions"}
        if key[output] in golden:
            return golden[key[output]]
        return np.arange(0, rows, self._strides[output])

    def _compare(self, output, actual, golden):
        if output not in actual:
            raise CaseError(f"the program wrote no {output}")
        expected = golden[output]
        rows = len(golden["ids"]) - (output == "mtp_logits")
        positions = self._positions(output, golden, rows)
        shape = (*expected.shape[:-2], rows, expected.shape[-1])
        if actual[output].shape != shape:
            raise CaseError(f"{output} has shape {actual[output].shape}, not {shape}")
        found = actual[output][..., positions, :]
        if found.shape != expected.shape:
            raise CaseError(f"golden {output} has {expected.shape}, not {found.shape}")

        errors = relative_errors(found, expected)
        bad = errors > TOLERANCE
        text = f"{output} max {errors.max():.1e}"
        if bad.any():
            first = np.argwhere(bad)[0]
            layer = f"layer {first[0]} " if output == "hidden" else ""
            where = f"first at {layer}position {positions[first[-1]]}"
            text += f", {bad.sum()} of {bad.size} over {TOLERANCE:.0e}, {where}"
        ok = not bad.any()
        if output != "hidden":
            wrong = wrong_best_ids(found, expected)
            if wrong.any():
                first = positions[np.argmax(wrong)]
                text += f", {wrong.sum()} wrong best ids, first at position {first}"
                ok = False
        return ok, text


def all_cases(scratch):
    cases = []
    for geometry in sorted((GOLDENS / "geometries").glob("*/geometry.json")):
        name = geometry.parent.name
        golden = geometry.parent / "golden.safetensors"
        cases.append(Case(name, scratch / name, golden, {}, geometry))
    tiny = GOLDENS / "tiny-a"
    strides = {"logits": 1, "hidden": 4, "mtp_logits": 1}
    cases.append(Case("tiny-a", tiny, tiny / "golden_text.safetensors", strides))
    miniature = ROOT / "models" / "miniature"
    strides = {"logits": 4, "hidden": 8, "mtp_logits": 4}
    golden = GOLDENS / "miniature_trace.safetensors"
    cases.append(Case("miniature_trace", miniature, golden, strides))
    strides = {"logits": 32, "mtp_logits": 32}
    golden = GOLDENS / "miniature_long.safetensors"
    cases.append(Case("miniature_long", miniature, golden, strides))
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("slotstream", type=pathlib.Path, help="the built program")
    parser.add_argument("scratch", type=pathlib.Path, help="directory for what the test writes")
    parser.add_argument("--hidden", action="store_true", help="compare the residual streams too")
    parser.add_argument("--mtp", action="store_true", help="compare the draft head's logits too")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these cases alone")
    args = parser.parse_args()

    cases = all_cases(args.scratch)
    if args.only:
        unknown = set(args.only) - {case.name for case in cases}
        if unknown:
            parser.error(f"no such case: {', '.join(sorted(unknown))}")
        cases = [case for case in cases if case.name in args.only]
    outputs = ["logits"] + ["hidden"] * args.hidden + ["mtp_logits"] * args.mtp
    args.scratch.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in cases:
        try:
            ok, text = case.run(args.slotstream.resolve(), args.scratch, outputs)
        except (CaseError, OSError, ValueError, KeyError) as error:
            ok, text = False, f"{type(error).__name__}: {error}"
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {case.name:20} {text}", flush=True)
    print(f"{len(cases) - failed} of {len(cases)} cases agree")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
