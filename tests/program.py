"""The program under test: its command line, and the miniature's expected replies."""

import os
import pathlib
import subprocess
import sys
import unittest

from miniature import GOLDENS, MODEL

# Of a script's command line: SLOTSTREAM SCRATCH [unittest arguments].
BINARY = os.path.abspath(sys.argv[1])
SCRATCH = pathlib.Path(sys.argv[2])
# Below this the two best logits of a step may change places in another implementation.
CLEAR_MARGIN = 0.01


def plain_cases(think):
    """One user message, nothing else, and no step that nearly ties."""
    return [case for case in GOLDENS
            if case["think"] == think and not case["tools"] and case["system"] is None
            and len(case["messages"]) == 1 and case["min_margin"] >= CLEAR_MARGIN]


def prompt_of(case):
    return case["messages"][0]["content"]


def answer_of(case):
    text = case["output_text"].split("<|im_end|>")[0]
    return text.split("</think>")[-1].lstrip("\n")


def slotstream(*arguments, stdin="", check=True, timeout=120):
    result = subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True,
                            text=True, timeout=timeout)
    if check and result.returncode != 0:
        raise AssertionError(f"exit status {result.returncode}: {result.stderr}")
    return result


def run(*arguments, **keywords):
    return slotstream("run", "--model", MODEL, *arguments, **keywords)


def main():
    SCRATCH.mkdir(parents=True, exist_ok=True)
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
