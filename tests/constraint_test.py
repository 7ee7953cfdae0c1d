#!/usr/bin/env python3
"""Replies drawn from uniform logits under constraints, validated by the jsonschema library.

    constraint_test.py CONSTRAINT_TOOL [unittest arguments]
"""

import json
import subprocess
import sys
import unittest

import jsonschema

from schemas import PERSON
from miniature import MODEL


class Tool(unittest.TestCase):
    def draw(self, questions):
        lines = "\n".join(map(json.dumps, questions))
        output = subprocess.run([TOOL, MODEL / "tokenizer.json"], input=lines,
                                capture_output=True, text=True, check=True).stdout
        answers = [json.loads(line) for line in output.splitlines()]
        self.assertEqual(len(answers), len(questions))
        return answers


class Drawn(Tool):
    """Nothing but the constraint decides."""

    def test_documents(self):
        recursive = {"$defs": {"tree": {
            "type": "object", "properties": {
                "value": {"type": "number", "minimum": -1, "maximum": 1},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
            "required": ["value"]}}, "$ref": "#/$defs/tree"}
        tuple_ = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
                  "items": False, "minItems": 2}
        joined = {"allOf": [{"$ref": "#/definitions/a"}], "required": ["y"],
                  "definitions": {"a": {"type": "object", "properties": {
                      "x": {"type": "integer", "exclusiveMaximum": 5},
                      "y": {"oneOf": [{"type": "string"}, {"type": "array", "items": {}}]}}}}}
        free = {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3}
        schemas = [PERSON, recursive, tuple_, joined, free, {}]
        questions = [{"schema": schema, "seed": seed} for schema in schemas for seed in range(40)]
        for question, answer in zip(questions, self.draw(questions)):
            self.assertNotIn("error", answer, question)
            self.assertTrue(answer["ended"], question)
            jsonschema.validate(json.loads(answer["text"]), question["schema"])


class Hostile(Tool):
    """A schema that means harm is refused, or costs no more memory than is planned."""

    def test_bounds(self):
        deep = True
        for _ in range(400):
            deep = {"items": deep}
        members = {f"k{i}": {"type": "integer"} for i in range(6000)}
        ladder = {"$defs": {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2}
                            for i in range(30)} | {"a30": {"type": "string"}}, "$ref": "#/$defs/a0"}
        knot = [{"type": "array", "items": {"$ref": "#"}, "minItems": i} for i in range(8)]
        accepted = [
            {"type": "string", "pattern": "^(a|b)*a(a|b){20}$"},
            {"type": "string", "pattern": "^(.|\\s)*[a-n].{60}$"},  # 2^60 sets of its states
            {"type": "string", "pattern": "^(.?){400}$"},
            {"type": "string", "pattern": "^[^a]*$", "maxLength": 5000, "minLength": 10},
            {"anyOf": [{"type": "string", "pattern": f"^[^{chr(0x4E00 + i)}]*$"}
                       for i in range(100)]},
            {"anyOf": [{"type": "array", "items": {"type": "string", "maxLength": i + 5}}
                       for i in range(500)]},
            {"enum": [f"{i:06}" for i in range(19000)]},
            {"type": "object", "properties": members, "additionalProperties": True},
            {"type": "object", "properties": members, "required": list(members)},
            ladder, {"anyOf": [*knot, {"type": "null"}]}]
        refused = [
            deep, {"anyOf": [{"type": "null"}] * 600}, {"enum": list(range(30000))},
            {"type": "string", "pattern": "^(.?){5000}$"},
            {"type": "string", "pattern": "^((((a{9}){9}){9}){9}){9}$"},
            {"properties": members, "anyOf": [{"required": [key]} for key in list(members)[:500]]},
            {"allOf": [{"enum": list(range(9000))}, {"enum": list(range(9000, 18000))}]},
            {"$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2}
                       for i in range(30)} | {"a30": {}}, "$ref": "#/$defs/a0"},
            {"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]
        for schema in accepted:
            with self.subTest(str(schema)[:80]):
                [answer] = self.draw([{"schema": schema, "seed": 1, "most": 500, "soft": 500}])
                self.assertLess(answer["grown"], answer["planned"])
        for schema in refused:
            with self.subTest(str(schema)[:80]):
                [answer] = self.draw([{"schema": schema}])
                self.assertIn("schema#", answer["error"])
                self.assertLess(answer["grown"], 30e6)


if __name__ == "__main__":
    TOOL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
