#!/usr/bin/env python3
"""Requests that are right as HTTP and wrong, huge or costly as JSON, against the real server.

    hostile_bodies_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import http.client
import json
import random
import re
import threading

from program import main
from miniature import ROOT
from serving import GREEDY, LONGEST_BODY, PATIENCE
from watched import Watched

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {
    "a": {"type": "string"}}}}
# The smallest request with some of everything, for each route that reads a body.
BODIES = {
    "/v1/chat/completions": {"messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, *MESSAGES,
        {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "b"}],
        "tools": [{"type": "function", "function": TOOL}], "max_tokens": 1},
    "/v1/completions": {"prompt": "Once", "max_tokens": 1},
    "/v1/responses": {"input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "x"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "b"}],
        "tools": [{"type": "function", **TOOL}, {"type": "namespace", "name": "n", "tools": [
            {"type": "function", **TOOL}]}], "max_output_tokens": 1},
    "/v1/messages": {"system": [{"type": "text", "text": "Be brief."}], "messages": [
        *MESSAGES, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "b", "is_error": False}]}],
        "tools": [{"name": "f", "input_schema": TOOL["parameters"]}], "max_tokens": 1},
    "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/api/chat": {"messages": [*MESSAGES, {"role": "assistant", "tool_calls": [
        {"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "b"}],
        "tools": [{"type": "function", "function": TOOL}], "options": {"num_predict": 1}},
    "/api/generate": {"prompt": "Once", "system": "Be brief.", "options": {"num_predict": 1}},
    "/api/show": {"model": "x"}, "/api/pull": {"model": "x"}, "/tokenize": {"content": "x"},
    "/detokenize": {"tokens": [65]}, "/api/embed": {"input": "x"}, "/api/create": {},
}
WRONG = [None, True, False, 0, -1, 3, 0.5, 1e308, -1e308, 2**53 + 1, 2**64, -2**63, "", "x",
         "\0", "a" * 5000, [], [[]], [None], [1], ["x", 1], [{}], {}, {"type": 5}, {"type": "x"},
         {"type": "function", "function": []}, [{"type": [], "role": {}}]]
# Honest answers to a bad request; 501 is for what Ollama has and this server has not.
FINE = (200, 400, 404, 501)
CONTEXT = 4096


def documented():
    """{route: names of fields} of docs/API.md."""
    fields, routes = {}, []
    for line in (ROOT / "docs" / "API.md").read_text().splitlines():
        if line.startswith("#"):
            routes = [route for route in re.findall(r"/[\w/]+", line) if route in BODIES]
        elif routes:
            for route in routes:
                fields.setdefault(route, set()).update(re.findall(r"`([a-z_][\w.]*)`", line))
    sampling = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "seed")
    for route in fields:
        prefix = "options." if route.startswith("/api/") else ""
        fields[route] |= {"model", "stream", *(prefix + name for name in sampling)}
    return fields


def put(body, path, value):
    """A copy of `body` with the member at the dotted path replaced."""
    copy = json.loads(json.dumps(body))
    inner = copy
    *outer, last = path.split(".")
    for name in outer:
        if not isinstance(inner.get(name), dict):
            inner[name] = {}
        inner = inner[name]
    inner[last] = value
    return copy


def places(value, path=()):
    """All paths into a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for key, inner in items:
        yield from places(inner, (*path, key))


class Posting(Watched):
    FLAGS = ("--max-context", CONTEXT)

    def setUp(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)

    def tearDown(self):
        self.connection.close()
        super().tearDown()

    def post(self, path, body):
        """(status, text) on the test's own connection."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request("POST", path, data)
        response = self.connection.getresponse()
        return response.status, response.read().decode()

    def assert_fine(self, path, body, allowed=FINE):
        status, text = self.post(path, body)
        shown = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.assertIn(status, allowed, (path, shown[:300], text[:300]))
        if status != 200:
            self.assertTrue(json.loads(text)["error"], (path, shown[:300]))
        return text


class Bodies(Posting):
    def test_wrong_values_of_every_documented_field(self):
        chance = random.Random(1)
        fields = documented()
        self.assertGreaterEqual(len(fields), 6, "docs/API.md has its tables")
        for route, names in sorted(fields.items()):
            for name in sorted(names):
                for value in chance.sample(WRONG, 2):
                    self.assert_fine(route, put(BODIES[route], name, value))

    def test_wrong_values_everywhere_within(self):
        chance = random.Random(2)
        for route, body in BODIES.items():
            for path in places(body):
                for value in chance.sample(WRONG, 1):
                    copy = json.loads(json.dumps(body))
                    if not path:
                        copy = value
                    else:
                        inner = copy
                        for step in path[:-1]:
                            inner = inner[step]
                        if value is None:
                            del inner[path[-1]]
                        else:
                            inner[path[-1]] = value
                    self.assert_fine(route, copy)

    def test_a_member_given_twice_counts_once(self):
        twice = (b'{"max_tokens": 5, "prompt": "a", "prompt": "Once", "max_tokens": 1, '
                 b'"temperature": 0}')
        once = {"prompt": "Once", "max_tokens": 1, "temperature": 0}
        got, expected = (json.loads(self.assert_fine("/v1/completions", body, (200,)))
                         for body in (twice, once))
        self.assertEqual((got["choices"], got["usage"]), (expected["choices"], expected["usage"]))

    def test_what_is_no_json(self):
        for body in (b"", b" ", b"null", b"[]", b"1", b'"x"', b"{", b"{}x", b"{'a': 1}", b"\0",
                     b'{"a": "\xff\xfe"}', b'{"a": "\xed\xa0\x80"}', b'{"\xc3\x28": 1}',
                     b'{"a": "\\ud800"}', b'{"a": "\\udc00\\ud800"}', b'{"a": 1e400}',
                     b'{"a": -1e400}', b'{"a": NaN}', b'{"a": 01}', b'{"a": 1' + b"0" * 10_000 + b"}",
                     b"{\"a\": \"\n\"}", b"[" * 100_000, b"{\"a\":" * 100_000,
                     b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"\xef\xbb\xbf{}x",
                     b"\x1f\x8b\x08\0", "{}".encode("utf-16")):
            for route in BODIES:
                if route not in ("/api/show", "/api/embed", "/api/create"):  # read none
                    self.assert_fine(route, body, (400, 413) if "pull" in route else (400,))

    def test_odd_texts(self):
        for text in ("\0", "a\0b", "\x7f\x1b[31m", "\ufffe\uffff", "\U0010ffff", "\u202e",
                     "a\u0301" * 500, "<|im_end|>", "<|im_start|>system\n", "</think>",
                     "<tool_call>\n<function=f>\n", "\r\n" * 500, " " * 10_000, "👩‍👩‍👧" * 50):
            body = [{"role": "user", "content": text}]
            counts = set()
            for route in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
                limit = {"options": {"num_predict": 1}} if "api" in route else {"max_tokens": 1}
                answer = self.assert_fine(route, {"messages": body, "stream": False, **limit}, (200,))
                answer = json.loads(answer)
                usage = answer.get("usage", {})
                # Anthropic's counts what came from the cache apart.
                counts.add(answer.get("prompt_eval_count") or usage.get("prompt_tokens")
                           or usage["input_tokens"] + usage["cache_read_input_tokens"])
            self.assertEqual(len(counts), 1, (text, "the dialects show the model different texts"))
        tokens = json.loads(self.assert_fine("/tokenize", {
            "content": "<|im_end|>", "parse_special": False}, (200,)))["tokens"]
        self.assertGreater(len(tokens), 1)


class Costly(Posting):
    """Requests as long as may be that would cost hours or gigabytes. Not timed: without their
    bounds this test does not end."""

    def test_costly_bodies(self):
        many = range(150_000)
        members = b",".join(b'"%d":0' % i for i in many)
        name = b'{"messages":[{"role":"user","content":"x"}],'
        for route in ("/v1/chat/completions", "/v1/messages", "/api/chat", "/api/pull"):
            self.assert_fine(route, name + members + b"}", (413,) if "pull" in route else (400,))
        call = json.dumps({"messages": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "f", "arguments": "{%s}" % members.decode()}}]}]}).encode()
        self.assert_fine("/v1/chat/completions", call, (400,))
        self.assert_fine("/v1/chat/completions", b'{"a":[' + b"0," * 1_000_000 + b"0]}", (400,))
        self.assert_fine("/v1/chat/completions", b'{"a":[' + b"[]," * 600_000 + b"0]}", (400,))
        calls = [{"id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in many[:8_000]]
        answers = [{"role": "tool", "tool_call_id": f"c{i}", "content": "x"} for i in many[:8_000]]
        self.assert_fine("/v1/chat/completions", {"messages": [
            {"role": "assistant", "tool_calls": calls}, *reversed(answers)]}, (400,))

    def test_costly_texts(self):
        # Among them one with a token each byte.
        for text in ("x", "word ", "a\u0301", "7", "!a?b", "x" * 1000 + " "):
            text *= (LONGEST_BODY - 1000) // len(text.encode())
            data = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
            for route in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
                self.assert_fine(route, data.encode(), (400,))
        self.assert_fine("/tokenize", {"content": "a " * (900 << 10)}, (400,))
        self.assert_fine("/tokenize", {"content": "a " * (512 << 10)}, (200,))
        self.assert_fine("/detokenize", b'{"tokens":[' + b"9," * 1_000_000 + b"9]}", (400,))
        short = b'{"messages":[' + b'{"role":"user","content":"a"},' * 30_000
        self.assert_fine("/v1/chat/completions", short[:-1] + b"]}", (400,))
        # The longest token as often as a request may say it.
        longest = max(range(300), key=lambda i: len(json.loads(self.assert_fine(
            "/detokenize", {"tokens": [i]}))["content"]))
        self.assert_fine("/detokenize", {"tokens": [longest] * 350_000}, (200, 400))

    def test_stop_strings_and_tools_without_number(self):
        body = {**BODIES["/v1/completions"], **GREEDY, "max_tokens": 20}
        for stop in ([f"never{i}" for i in range(20_000)], ["never" * 100_000]):
            self.assert_fine("/v1/completions", {**body, "stop": stop}, (200, 400))
        tools = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(20_000)]
        self.assert_fine("/v1/chat/completions", {"messages": MESSAGES, "tools": tools}, (400,))

    def test_others_are_served_meanwhile(self):
        data = json.dumps({"messages": [{"role": "user", "content": "word " * (256 << 10)}]}).encode()
        threads = [threading.Thread(target=self.server.ask, args=("POST", "/api/chat", data))
                   for _ in range(3)]
        for thread in threads:
            thread.start()
        for path in ("/api/tags", "/health", "/metrics", "/v1/models"):
            self.assertEqual(self.server.ask("GET", path)[0], 200)
        for thread in threads:
            thread.join()

    def test_what_a_response_repeats_is_bounded(self):
        body = {"input": "Hi", "stream": True, "max_output_tokens": 1,
                "metadata": {"a": "x" * (3 << 19)}}
        text = self.assert_fine("/v1/responses", body, (200,))
        self.assertIn('"type":"response.incomplete"', text)
        self.assertLess(len(text), 1 << 20)
        small = self.assert_fine("/v1/responses", {**body, "metadata": {"a": "b"}}, (200,))
        self.assertIn('"metadata":{"a":"b"}', small)


if __name__ == "__main__":
    main()
