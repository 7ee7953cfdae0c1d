#!/usr/bin/env python3
"""What constraints cost: the time of each mask of replies drawn from uniform logits.

    mask_cost.py CONSTRAINT_TOOL TOKENIZER_JSON [WORD]

For each kind of constraint (with a word: of those whose names have it): the time to make it from
its schema, the first mask, and the median, the 99th percentile and the slowest of the masks behind
the first, in microseconds; the work of the costliest, counted as src/generate/mask_builder.h says,
whose bound is the same for all. Then the most memory that all of it took, the vocabulary's index
included, and what is planned for it.
"""

import json
import subprocess
import sys

REPLIES = 20
PERSON = {"type": "object", "properties": {
    "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "kind": {"enum": ["red", "grey", "arctic"]},
    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5}},
    "required": ["name", "age", "kind", "tags"], "additionalProperties": False}
SHORT = {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 40},
         "minItems": 3, "maxItems": 9}
PATTERN = {"type": "array", "items": {"type": "string", "pattern": "^[^<>]*$", "maxLength": 60},
           "minItems": 3, "maxItems": 9}
DATES = {"type": "array", "items": {"type": "string", "format": "date-time"}, "minItems": 3,
         "maxItems": 9}
QUESTIONS = {
    "any object": {"schema": {"type": "object"}},
    "an object by its schema": {"schema": PERSON},
    "strings with lengths": {"schema": SHORT},
    "strings of a narrow format (date-time)": {"schema": DATES},
    "strings of a wide pattern (`^[^<>]*$`)": {"schema": PATTERN},
    "the same, counted by the pattern": {"schema": {
        "type": "array", "minItems": 3, "maxItems": 9,
        "items": {"type": "string", "pattern": "^[^<>]{0,60}$"}}},
    "hostile: 500 wide patterns at once": {"most": 6, "schema": {"anyOf": [
        {"type": "string", "pattern": f"^[^{chr(0x4E00 + i)}]*$"}
        for i in range(500)]}},
    "hostile: 90 of ASCII": {"most": 6, "schema": {"anyOf": [
        {"type": "string", "pattern": f"^[^{chr(92)}x{33 + i:02x}]*$"} for i in range(90)]}},
    "hostile: 500 lengths in lists": {"most": 6, "schema": {"anyOf": [
        {"type": "array", "items": {"type": "string", "maxLength": i + 5}} for i in range(500)]}}}


def replies(question):
    return 1 if "most" in question else REPLIES  # of hostile ones a few masks say all


def main():
    tool, tokenizer, word = (sys.argv[1:] + [""])[:3]
    questions = {name: question for name, question in QUESTIONS.items() if word in name}
    lines = [json.dumps({**question, "seed": seed})
             for question in questions.values() for seed in range(replies(question))]
    output = subprocess.run([tool, tokenizer], input="\n".join(lines), capture_output=True,
                            text=True, check=True).stdout
    answers = [json.loads(line) for line in output.splitlines()]
    print("| | compiled | first mask | median | 99% | slowest | masks | work |")
    print("|---|---|---|---|---|---|---|---|")
    rest = iter(answers)
    for name, question in questions.items():
        drawn = [next(rest) for _ in range(replies(question))]
        if "error" in drawn[0]:
            raise SystemExit(f"{name}: {drawn[0]['error']}")
        later = sorted(nanos for answer in drawn for nanos in answer["nanos"][1:])
        values = (min(answer["compile"] for answer in drawn),
                  drawn[0]["nanos"][0], later[len(later) // 2], later[len(later) * 99 // 100],
                  later[-1])
        print(f"| {name} | " + " | ".join(f"{value / 1000:,.0f}" for value in values) +
              f" | {len(later)} | {max(answer.get('work', 0) for answer in drawn):,} |")
    print(f"\n{max(answer['grown'] for answer in answers) / 1e6:.1f} MB of "
          f"{answers[0]['planned'] / 1e6:.1f} MB planned")


if __name__ == "__main__":
    main()
