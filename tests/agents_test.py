#!/usr/bin/env python3
"""What coding agents and chat programs send, as recorded, and what they rely on.

    agents_test.py SLOTSTREAM SCRATCH [unittest arguments]

Each request has the fields and the headers of its client. Only the standard library is needed.
"""

import http.client
import json
import threading
import time

from program import main
from miniature import MODEL
from serving import events
from with_server import WithServer

CONTEXT = 8192
PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5"
         "ErkJggg==")
# The token that ends a turn.
END = json.loads((MODEL / "generation_config.json").read_text())["eos_token_id"][0]
# How the last line of a stream begins.
LAST = ("data: [DONE]", 'data: {"type":"message_stop"', 'data: {"type":"response.completed"')
# What schemas of real tools hold that nobody must choke on.
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
          "title": "Arguments", "additionalProperties": False, "required": ["path"],
          "$defs": {"Mode": {"enum": ["r", "w"], "type": "string"}},
          "properties": {
              "path": {"type": "string", "maxLength": 4096, "pattern": "^/", "format": "uri"},
              "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
              "low": {"type": "integer", "minimum": -9007199254740991},
              "mode": {"$ref": "#/$defs/Mode"}, "kind": {"const": "file"},
              "env": {"type": "object", "propertyNames": {"type": "string"},
                      "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
              "list": {"type": "array", "minItems": 1, "maxItems": 4, "default": []}}}


def text(content, **more):
    return {"type": "text", "text": content, **more}


CACHED = {"cache_control": {"type": "ephemeral"}}
CLAUDE_HEADERS = {
    "anthropic-version": "2023-06-01", "X-Claude-Code-Session-Id": "5f1c", "x-app": "cli",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,"
                      "context-management-2025-06-27,prompt-caching-scope-2026-01-05,effort-2025-11-24",
    "Authorization": "Bearer x", "X-Stainless-Timeout": "600"}
CLAUDE_TOOLS = [{"name": f"Tool{i}", "description": "Does things.", "input_schema": SCHEMA}
                for i in range(3)]
CLAUDE = {
    "model": "claude-opus-4-8", "max_tokens": 32000, "stream": True, "thinking": {
        "type": "adaptive"}, "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"session_id": "5f1c"}'}, "tools": CLAUDE_TOOLS,
    "system": [text("x-anthropic-billing-header: cc_version=2.1.197.a1b; cc_entrypoint=cli;"),
               text("You are an agent.", **CACHED), text("gitStatus: clean", **CACHED)],
    "messages": [
        {"role": "user", "content": [text("Read the file.", **CACHED)]},
        {"role": "system", "content": "The date is Sunday."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "A file.", "signature": ""}, text(""),
            {"type": "tool_use", "id": "toolu_1", "name": "Tool0", "input": {"path": "/a"}},
            {"type": "tool_use", "id": "toolu_2", "name": "Tool1", "input": {"path": "/b"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": "no"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                text("yes"), {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": PIXEL}}]}]},
        {"role": "system", "content": "A later word."},
        {"role": "user", "content": "Go on."}]}
CODEX_HEADERS = {"accept": "text/event-stream", "session-id": "s", "thread-id": "t",
                 "x-codex-turn-metadata": '{"request_kind": "turn"}'}
CODEX = {
    "model": "gpt-5-codex", "stream": True, "store": False, "tool_choice": "auto",
    "parallel_tool_calls": True, "reasoning": {"summary": "auto"},
    "include": ["reasoning.encrypted_content"], "prompt_cache_key": "t",
    "client_metadata": {"x": "y"},
    "tools": [{"type": "function", "name": "shell", "strict": False, "parameters": SCHEMA,
               "description": "Runs."},
              {"type": "namespace", "name": "multi_agent_v1", "description": "Agents.", "tools": [
                  {"type": "function", "name": "spawn", "strict": False, "parameters": SCHEMA}]},
              {"type": "web_search", "external_web_access": False}],
    "input": [
        {"type": "message", "id": "msg_1", "role": "developer", "content": [
            {"type": "input_text", "text": "You are an agent."}]},
        {"type": "message", "role": "developer", "content": [
            {"type": "input_text", "text": "Sandbox."}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "AGENTS.md"}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL,
             "detail": "high"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None,
         "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "spawn",
         "namespace": "multi_agent_v1", "arguments": '{"path": "/a"}', "status": "completed"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": [
            {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL}]},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "foreign"},
        {"type": "message", "id": "msg_2", "role": "assistant", "content": [
            {"type": "output_text", "text": "Done."}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Thanks."}]}]}
OPENAI_TOOLS = [{"type": "function", "function": {
    "name": "read", "description": "Reads.", "strict": False, "parameters": SCHEMA}}]
# (client, path, headers, body): each must be answered with 200.
ORDINARY = [
    ("Claude Code", "/v1/messages?beta=true", CLAUDE_HEADERS, CLAUDE),
    ("Claude Code without stream, as after a break", "/v1/messages?beta=true", CLAUDE_HEADERS,
     {**CLAUDE, "stream": False}),
    ("Claude Code, no thinking, no betas", "/v1/messages?beta=true", CLAUDE_HEADERS,
     {k: v for k, v in CLAUDE.items() if k not in ("thinking", "context_management")}),
    ("Claude Code, web search", "/v1/messages?beta=true", CLAUDE_HEADERS,
     {"model": "claude-opus-4-8", "max_tokens": 64000, "tool_choice": {"type": "auto"},
      "messages": [{"role": "user", "content": "Search."}], "stream": True,
      "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]}),
    ("Claude Code, sub-agent", "/v1/messages?beta=true",
     {**CLAUDE_HEADERS, "x-claude-code-agent-id": "a1"},
     {**CLAUDE, "system": [text("x-anthropic-billing-header: cc_is_subagent=true;"),
                           text("You search.")], "thinking": {"type": "disabled"}}),
    ("Claude Code, /compact", "/v1/messages?beta=true", CLAUDE_HEADERS,
     {**CLAUDE, "messages": CLAUDE["messages"] + [{"role": "user", "content": [text("Sum up.")]}]}),
    ("litellm anthropic/", "/v1/messages", {"x-api-key": "x", "anthropic-version": "2023-06-01"},
     {"model": "x", "max_tokens": 128000, "system": [text("Be brief.")],
      "tools": [{"type": "custom", "name": "read", "input_schema": SCHEMA}],
      "messages": [{"role": "user", "content": [text("Hi")]}]}),
    ("Codex", "/v1/responses", CODEX_HEADERS, CODEX),
    ("Codex, compaction", "/v1/responses", CODEX_HEADERS,
     {**CODEX, "tools": [], "parallel_tool_calls": False, "input": CODEX["input"] + [
         {"type": "message", "role": "user", "content": [
             {"type": "input_text", "text": "Sum up."}]}]}),
    ("Codex, sub-agent", "/v1/responses",
     {**CODEX_HEADERS, "x-openai-subagent": "x", "x-codex-parent-thread-id": "t"}, CODEX),
    ("opencode, title", "/v1/chat/completions", {"x-session-id": "s"},
     {"model": "small", "max_tokens": 32000, "stream": True,
      "stream_options": {"include_usage": True},
      "messages": [{"role": "system", "content": "Title."}, {"role": "user", "content": "A"},
                   {"role": "user", "content": "B"}]}),
    ("opencode", "/v1/chat/completions", {"x-session-affinity": "s", "x-parent-session-id": "p"},
     {"model": "big", "max_tokens": 32000, "tools": OPENAI_TOOLS, "tool_choice": "auto",
      "stream": True, "stream_options": {"include_usage": True}, "messages": [
          {"role": "system", "content": "S"}, {"role": "user", "content": [
              {"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {
                  "url": "data:image/png;base64," + PIXEL}}]},
          {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [
              {"id": "call_1", "type": "function", "function": {
                  "name": "read", "arguments": '{"path":"/a"}'}}]},
          {"role": "tool", "tool_call_id": "call_1", "content": "x"}]}),
    ("Qwen Code", "/v1/chat/completions", {}, {
        "model": "m", "max_tokens": 8000, "tools": OPENAI_TOOLS, "stream": True,
        "stream_options": {"include_usage": True}, "messages": [
            {"role": "user", "content": [text("Go")]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": [text("x")]}]}),
    ("pi", "/v1/chat/completions", {}, {
        "model": "m", "store": False, "max_completion_tokens": 32000, "stream": True,
        "reasoning_effort": "medium", "tools": OPENAI_TOOLS, "messages": [
            {"role": "developer", "content": "S"}, {"role": "user", "content": "Hi"}]}),
    ("aider", "/v1/chat/completions", {}, {
        "model": "m", "temperature": 0, "stream": True, "messages": [
            {"role": "system", "content": "S"}] + [
            {"role": role, "content": "x"} for role in ("user", "assistant") * 4] + [
            {"role": "user", "content": "Hi"}]}),
    ("Open WebUI, OpenAI side", "/v1/chat/completions", {"Authorization": "Bearer k"}, {
        "model": "m", "stream": True, "num_ctx": 4096, "think": False, "keep_alive": "5m",
        "messages": [{"role": "user", "content": "Hi"}]}),
    ("Open WebUI", "/api/chat", {}, {
        "model": "m", "stream": True, "think": False, "keep_alive": "5m", "options": {
            "temperature": 0.8, "num_ctx": 4096, "stop": ["###"], "seed": 1, "num_predict": 8},
        "messages": [{"role": "user", "content": "Hi", "images": [PIXEL]}]}),
    ("Open WebUI, title, tags, follow-ups", "/api/chat", {}, {
        "model": "m", "stream": False, "options": {"num_predict": 4},
        "messages": [{"role": "user", "content": "### Task: JSON, please"}],
        "metadata": {"task": "title_generation"}}),
    ("ollama library", "/api/chat", {}, {
        "model": "m", "stream": False, "tools": [], "options": {"num_predict": 2}, "format": "",
        "messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "read", "arguments": {"path": "/a"}}}]},
            {"role": "tool", "tool_name": "read", "content": "x"}]}),
    ("litellm ollama_chat/", "/api/chat", {}, {
        "model": "m", "stream": False, "options": {"num_ctx": 9108, "num_predict": 2}, "messages": [
            {"role": "user", "content": "Hi", "images": []},
            {"role": "assistant", "content": "", "images": [], "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": {}}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x", "images": []}]}),
    ("llm", "/api/chat", {}, {
        "model": "m", "stream": True, "options": {}, "tools": [],
        "messages": [{"role": "user", "content": "Hi"}]}),
    ("ollama, stop as text", "/api/generate", {}, {
        "model": "m", "prompt": "Hi", "options": {"stop": "x", "num_predict": -1, "seed": -1},
        "images": [], "system": "", "template": "", "context": [1, 2], "raw": False}),
]


class WithRoom(WithServer):
    """Agents' prompts are long."""

    FLAGS = ("--max-context", CONTEXT)


def short(path, body):
    """The same, with a reply that ends at once."""
    end = {"logit_bias": {str(END): 100}}
    if path.startswith("/api/"):
        return {**body, "options": {**body.get("options", {}), **end}}
    return {**body, **end}


class Requests(WithRoom):
    def test_each_is_answered(self):
        for client, path, headers, body in ORDINARY:
            with self.subTest(client):
                status, _, answer = self.server.ask("POST", path, short(path, body), headers)
                self.assertEqual(status, 200, answer)
                if not body.get("stream", path.startswith("/api/")):
                    json.loads(answer)
                elif path.startswith("/api/"):
                    self.assertTrue(json.loads(answer.splitlines()[-1])["done"])
                else:
                    self.assertTrue(answer.strip().splitlines()[-1].startswith(LAST), answer)
                    self.assertNotIn('"error":{', answer)

    def test_usage_only_where_it_was_asked_for(self):
        body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 2}
        for wanted in (True, False):
            options = {"stream_options": {"include_usage": True}} if wanted else {}
            chunks = [json.loads(data) for data in events(self.server.ask(
                "POST", "/v1/chat/completions", {**body, **options})[2])[:-1]]
            without = [chunk for chunk in chunks if not chunk["choices"]]
            self.assertEqual(len(without), int(wanted))
            self.assertEqual(any("usage" in chunk for chunk in chunks), wanted)

    def test_limits_are_clamped(self):
        one = {"messages": [{"role": "user", "content": "Hi"}], "input": "Hi", "prompt": "Hi"}
        for limit in (8192, 32000, 64000, 128000, 1 << 40):
            for path, name in (("/v1/messages", "max_tokens"),
                               ("/v1/chat/completions", "max_tokens"),
                               ("/v1/chat/completions", "max_completion_tokens"),
                               ("/v1/responses", "max_output_tokens"),
                               ("/v1/completions", "max_tokens")):
                self.server.json("POST", path, {**one, name: limit, "logit_bias": {
                    str(self.stop_id()): 100}})

    def stop_id(self):
        return self.server.json("POST", "/tokenize", {"content": "<|im_end|>"})["tokens"][0]

    def test_what_is_too_long_is_said_in_the_words_that_clients_look_for(self):
        long = "one two three four " * CONTEXT
        messages = {"messages": [{"role": "user", "content": long}], "stream": True}
        for path, body in (("/v1/chat/completions", messages),
                           ("/v1/responses", {"input": long, "stream": True})):
            status, headers, answer = self.server.ask("POST", path, body)
            error = json.loads(answer)["error"]
            self.assertEqual((status, error["type"], error["code"]),
                             (400, "invalid_request_error", "context_length_exceeded"))
            self.assertRegex(error["message"], r"^This model's maximum context length is \d+ tokens\."
                                               r" However, your messages resulted in \d+ tokens\.")
            self.assertNotIn("Retry-After", headers)
        error = self.server.json("POST", "/v1/messages", messages, status=400)["error"]
        self.assertEqual(error["type"], "invalid_request_error")
        self.assertRegex(error["message"], r"^prompt is too long: \d+ tokens > \d+ maximum$")
        for word in ("again", "later", "retry"):
            self.assertNotIn(word, error["message"].lower())


class ClaudeCode(WithRoom):
    def test_before_the_first_prompt(self):
        self.assertEqual(self.server.ask("HEAD", "/")[0], 200)

    def test_counts_answer_beside_a_generation(self):
        """/context asks fifteen times at once, on two connections."""
        body = json.dumps({**{k: CLAUDE[k] for k in ("model", "system", "messages")}, "tools": []})
        counts = []

        def ask(times):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
            for _ in range(times):
                connection.request("POST", "/v1/messages/count_tokens?beta=true", body,
                                   CLAUDE_HEADERS)
                counts.append(json.loads(connection.getresponse().read())["input_tokens"])
            connection.close()

        with self.server.open() as running:
            endless = json.dumps({"messages": [{"role": "user", "content": "Tell me a story."}],
                                  "stream": True, "max_tokens": 4000, "temperature": 1.5}).encode()
            running.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (len(endless), endless))
            self.assertTrue(running.recv(1000).startswith(b"HTTP/1.1 200"))
            threads = [threading.Thread(target=ask, args=(n,)) for n in (8, 7)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(self.server.metric("queue_running"), 1)
        self.assertEqual(len(counts), 15)
        self.assertEqual(len(set(counts)), 1)

    def count(self, **changes):
        body = {k: v for k, v in CLAUDE.items() if k not in ("stream", "max_tokens")}
        return self.server.json("POST", "/v1/messages/count_tokens", {**body, **changes})[
            "input_tokens"]

    def test_what_changes_between_sessions_is_not_in_the_prompt(self):
        billing = [text("x-anthropic-billing-header: cc_version=2.1.197.fff;\n")]
        self.assertEqual(self.count(), self.count(system=billing + CLAUDE["system"][1:]))
        self.assertEqual(self.count(), self.count(system=CLAUDE["system"][1:]))
        self.assertEqual(self.count(), self.count(metadata={"user_id": "other"}))
        first = CLAUDE["messages"][0]
        self.assertEqual(self.count(), self.count(
            messages=[{**first, "content": "Read the file."}] + CLAUDE["messages"][1:]))

    def test_a_system_message_stays_in_its_place(self):
        # Moved to the front it would change the beginning of the prompt, not its end.
        early = self.count(messages=CLAUDE["messages"][:2])
        late = self.count(messages=CLAUDE["messages"][:2] + [
            {"role": "system", "content": "Another."}])
        self.assertGreater(late, early)

    def test_title_beside_the_turn(self):
        """Two requests of one session at the same instant."""
        statuses = []
        title = {"model": "claude-haiku-4-5", "max_tokens": 32000, "stream": True,
                 "messages": [{"role": "user", "content": [text("Hi")]}]}
        threads = [threading.Thread(target=lambda body=body: statuses.append(self.server.ask(
            "POST", "/v1/messages?beta=true", body, CLAUDE_HEADERS)[0]))
            for body in (short("", CLAUDE), short("", title))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200, 200])

    def test_ids_of_calls_are_unique(self):
        found = []
        for _ in range(2):
            _, _, answer = self.server.ask("POST", "/v1/messages", {
                **CLAUDE, "tool_choice": {"type": "tool", "name": "Tool0"}, "max_tokens": 4})
            found += [event["content_block"]["id"] for event in map(json.loads, events(answer))
                      if event.get("content_block", {}).get("type") == "tool_use"]
        self.assertEqual(len(found), 2)
        self.assertEqual(len(set(found)), 2)
        self.assertFalse({"toolu_1", "toolu_2"} & set(found))


class Codex(WithRoom):
    def test_it_leaves_at_completed(self):
        finished = self.server.metric("generations_finished_total")
        cancelled = self.server.metric("generations_cancelled_total")
        body = json.dumps(short("", CODEX)).encode()
        with self.server.open() as connection:
            connection.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            received = b""
            while b"event: response.completed" not in received \
                    and b"event: response.incomplete" not in received:
                received += connection.recv(65536)
        end = time.monotonic() + 60
        while self.server.metric("generations_finished_total") == finished:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual(self.server.metric("generations_cancelled_total"), cancelled)

    def test_local_providers(self):
        version = self.server.json("GET", "/api/version")["version"]
        self.assertGreaterEqual(tuple(map(int, version.split("."))), (0, 13, 4))
        (model,) = self.server.json("GET", "/v1/models")["data"]
        self.assertEqual(model["id"], self.server.json("GET", "/api/tags")["models"][0]["model"])
        self.assertIn("error", self.server.json("POST", "/api/pull", {
            "model": "gpt-oss:20b", "stream": True}, status=404))
        loaded = self.server.json("POST", "/v1/responses", {
            "model": "m", "input": "", "max_output_tokens": 1})
        self.assertEqual(loaded["status"], "completed")
        self.assertEqual(self.server.ask("GET", "/v1/responses", headers={
            "Connection": "Upgrade", "Upgrade": "websocket"})[0], 404)


class Ollama(WithRoom):
    def test_loads_and_unloads(self):
        for path in ("/api/chat", "/api/generate"):
            for body, reason in (({}, "load"), ({"messages": [], "prompt": ""}, "load"),
                                 ({"keep_alive": 0}, "unload")):
                for stream in (True, False):
                    _, _, answer = self.server.ask("POST", path, {
                        "model": "m", "stream": stream, **body})
                    self.assertEqual(json.loads(answer)["done_reason"], reason)

    def test_show_by_either_name(self):
        for body in ({"model": "m"}, {"name": "m"}, {"name": "m", "verbose": True}):
            shown = self.server.json("POST", "/api/show", body)
            self.assertGreater(shown["model_info"]["qwen4_exp.context_length"], 0)
            self.assertIn("tools", shown["capabilities"])

    def test_embeddings_fail_cleanly(self):
        for path in ("/api/embed", "/api/embeddings", "/v1/embeddings"):
            self.assertIn("error", self.server.json("POST", path, {"input": "x"}, status=400))


if __name__ == "__main__":
    main()
