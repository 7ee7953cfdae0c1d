#!/usr/bin/env python3
"""docs/API.md says what the server does with each field: every row of its tables is tried.

    api_doc_test.py SLOTSTREAM SCRATCH [unittest arguments]
"""

import json
import re

from program import main
from miniature import ROOT
from serving import GREEDY
from with_server import WithServer

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
# The least that each route needs. Ollama's sampling is in its options.
ROUTES = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 3, **GREEDY},
    "/v1/completions": {"prompt": "Once upon", "max_tokens": 3, **GREEDY},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 3, **GREEDY},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 3, **GREEDY},
    "/api/chat": {"messages": MESSAGES, "stream": False, "options": {"num_predict": 3, **GREEDY}},
    "/api/generate": {"prompt": "Hello", "stream": False, "options": {"num_predict": 3, **GREEDY}},
}
ANYTHING = (5, -1.5, "x", True, ["x", 5], {"x": {"y": 5}})


class Row:
    def __init__(self, names, example, text):
        self.names = names
        self.anything = example == "anything"
        self.example = None if self.anything else json.loads(example.strip("`"))
        self.refused = text.startswith("refused")


def read_tables():
    """{heading: [Row]} of the tables with the columns field, example and text."""
    tables, heading, inside = {}, None, False
    for line in (ROOT / "docs" / "API.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").removeprefix("POST ")
        if line == "| field | example | |":
            inside = True
            tables[heading] = []
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            names, example, text = (cell.strip() for cell in line.strip("|").split(" | ", 2))
            tables[heading].append(Row(re.findall(r"`(\w+)`", names), example, text.strip()))
    return tables


def names_in_sources():
    """All that the readers could know as a field: the words in quotes."""
    words = set()
    for path in (ROOT / "src" / "server").glob("*.cc"):
        if not path.name.endswith("_test.cc"):
            words |= set(re.findall(r'"([a-z][a-z0-9_]*)"', path.read_text()))
    return words


def wrong_types(example):
    """Values of which no reader of the example's type can make anything."""
    if isinstance(example, (int, float)) and not isinstance(example, bool):
        return ["x", {"x": 5}]
    if isinstance(example, dict):
        return [5, "x"]
    # A list of texts may be one text, and content one part of it.
    return [5, -1.5]


class ApiDoc(WithServer):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tables = read_tables()
        cls.sampling = cls.tables.pop("Sampling")

    def send(self, route, fields):
        status, _, text = self.server.ask("POST", route, {**ROUTES[route], **fields})
        return status, text

    def answer(self, route, fields):
        """What the model said, which is all that must not change."""
        status, text = self.send(route, fields)
        self.assertEqual(status, 200, (route, fields, text))
        body = json.loads(text)
        for varying in ("id", "created", "created_at", "model", "metadata", "prompt_cache_key"):
            body.pop(varying, None)
        found = json.dumps([body.get(key) for key in
                            ("choices", "output", "content", "message", "response")])
        return re.sub(r'"(msg|rs|fc)_\w+"', '""', found)

    def sampled(self, route, fields):
        """The fields where the route has its sampling."""
        if not route.startswith("/api/"):
            return fields
        return {"options": {**ROUTES[route]["options"], **fields}}

    def test_tables_are_of_all_routes(self):
        self.assertEqual(set(self.tables), set(ROUTES))

    def test_rows(self):
        for route, rows in self.tables.items():
            plain = self.answer(route, {})
            for row in rows:
                for name in row.names:
                    with self.subTest(route=route, field=name):
                        self.check(route, row, name, plain)

    def check(self, route, row, name, plain):
        if row.anything:
            for value in ANYTHING:
                self.assertEqual(self.answer(route, {name: value}), plain, (name, value))
            return
        status, text = self.send(route, {name: row.example})
        if row.refused:
            self.assertEqual(status, 400, text)
            self.assertIn(name, text)
            return
        self.assertEqual(status, 200, text)
        for value in wrong_types(row.example):
            status, text = self.send(route, {name: value})
            self.assertEqual(status, 400, (value, text))
            self.assertIn(name, text)

    def test_sampling(self):
        for route in ROUTES:
            for row in self.sampling:
                (name,) = row.names
                with self.subTest(route=route, field=name):
                    status, text = self.send(route, self.sampled(route, {name: row.example}))
                    self.assertEqual(status, 200, text)
                    status, text = self.send(route, self.sampled(route, {name: "x"}))
                    self.assertEqual(status, 400, text)
                    self.assertIn(name, text)

    def test_what_a_table_lacks_has_no_effect(self):
        everywhere = {name for rows in (*self.tables.values(), self.sampling)
                      for row in rows for name in row.names}
        # Ollama's routes know their models by both.
        aliases = {"/api/chat": {"name"}, "/api/generate": {"name"}}
        for route, rows in self.tables.items():
            known = {name for row in rows for name in row.names} | aliases.get(route, set())
            if not route.startswith("/api/"):
                known |= {name for row in self.sampling for name in row.names}
            others = (everywhere | names_in_sources()) - known
            self.assertGreater(len(others), 100)
            plain = self.answer(route, {})
            for value in ANYTHING:
                with self.subTest(route=route, value=value):
                    self.assertEqual(self.answer(route, dict.fromkeys(others, value)), plain)


if __name__ == "__main__":
    main()
