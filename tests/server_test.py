#!/usr/bin/env python3
"""The server as clients, hostile ones too, see it through HTTP.

    server_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import http.client
import json
import select
import socket
import struct
import subprocess
import threading
import time
import unittest

from program import BINARY, main
from miniature import MODEL
from serving import GREEDY, LONGEST_BODY, PATIENCE, Server, events, golden, wait_until
from with_server import WithServer

FRANCE = "What is the capital of France?"
# Read in many passes, so that there is time to see the server while it works.
LONG = "one two three four " * 1500
ENDS = json.loads((MODEL / "generation_config.json").read_text())["eos_token_id"]
# It cannot end by itself.
STORY = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "stream": True,
         "max_tokens": 4000, "temperature": 1.5, "logit_bias": {str(end): -100 for end in ENDS}}


def chat(content, **more):
    return {"messages": [{"role": "user", "content": content}], **GREEDY, **more}


def start_stream(server, path="/v1/chat/completions", body=STORY):
    """A connection that has begun to receive a stream."""
    connection = server.open()
    data = json.dumps(body).encode()
    connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                       % (path.encode(), len(data), data))
    assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    return connection


class Routes(WithServer):
    def test_paths_as_clients_write_them(self):
        for path in ("/v1/models", "//v1/models", "/v1/models/", "/v1/v1/models", "/models",
                     "/v1/models?beta=true", "http://elsewhere/v1/models", "/v1/models/any%3Aname"):
            self.assertEqual(self.server.ask("GET", path)[0], 200, path)

    def test_head_and_options(self):
        for path in ("/", "/v1/messages", "/api/chat", "/api/tags", "/health"):
            status, headers, body = self.server.ask("HEAD", path)
            self.assertEqual((status, body), (200, ""), path)
        asked = ", ".join(f"x-stainless-{i}" for i in range(30))
        status, headers, _ = self.server.ask("OPTIONS", "/v1/chat/completions", headers={
            "Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked})
        self.assertEqual(status, 204)
        self.assertEqual(headers["Access-Control-Allow-Headers"], asked)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "http://localhost:3000")

    def test_errors_in_each_form(self):
        self.assertIn("error", self.server.json("GET", "/v1/nonsense", status=404)["error"]["type"])
        self.assertIsInstance(self.server.json("POST", "/api/nonsense", {}, status=404)["error"],
                              str)
        error = self.server.json("GET", "/v1/messages", status=405)
        self.assertEqual((error["type"], error["error"]["type"]),
                         ("error", "invalid_request_error"))
        for path, body in (("/v1/chat/completions", {"messages": 5}),
                           ("/v1/chat/completions", {"messages": [{"role": "wizard"}]}),
                           ("/v1/chat/completions", chat("x", n=2)),
                           ("/v1/chat/completions", chat("x", temperature="hot")),
                           ("/v1/chat/completions", chat("x", response_format={
                               "type": "grammar"})),
                           ("/v1/messages", {"messages": [], "thread": {"type": "create"}}),
                           ("/v1/responses", {"input": "x", "previous_response_id": "resp_1"}),
                           ("/v1/completions", {"prompt": {}}),
                           ("/api/chat", {"messages": [{}]}), ("/api/embed", {"input": "x"}),
                           ("/tokenize", {}), ("/detokenize", {"tokens": ["x"]})):
            self.assertIn("error", self.server.json("POST", path, body, status=400), (path, body))
        self.assertEqual(self.server.ask("POST", "/api/create", {})[0], 501)
        self.assertEqual(self.server.ask("POST", "/api/pull", {"model": "other"})[0], 404)
        self.assertEqual(self.server.ask("GET", "/v1/responses")[0], 404)

    def test_bodies(self):
        body = json.dumps(chat(FRANCE))
        answer = golden(FRANCE)[0]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part.encode())
                          for part in (body[:7], body[7:]))
        received = self.server.raw(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n"
            + chunks + b"0\r\n\r\n")
        self.assertIn(answer, received.decode())
        with self.server.open() as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 100"))
            connection.sendall(body.encode())
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200"))

    def test_old_http_and_pipelining(self):
        received = self.server.raw(b"GET /api/version HTTP/1.0\r\n\r\n")
        self.assertIn(b'"version"', received)
        body = json.dumps(chat(FRANCE)).encode()
        received = self.server.raw(
            b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
            b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (len(body), body))
        order = [received.find(word) for word in (b'"version"', b"chat.completion", b'"ok"')]
        self.assertEqual(order, sorted(order))
        self.assertNotIn(-1, order)
        received = self.server.raw(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n"
                                   % len(json.dumps(chat(FRANCE, stream=True)))
                                   + json.dumps(chat(FRANCE, stream=True)).encode())
        self.assertNotIn(b"chunked", received)
        self.assertTrue(received.endswith(b"data: [DONE]\n\n"))

    def test_operations(self):
        self.assertEqual(self.server.json("GET", "/health")["status"], "ok")
        tokens = self.server.json("POST", "/tokenize", {"content": "Hello world"})["tokens"]
        self.assertEqual(self.server.json("POST", "/detokenize", {"tokens": tokens})["content"],
                         "Hello world")
        before = self.server.metric("reply_tokens_total")
        self.server.json("POST", "/v1/chat/completions", chat(FRANCE))
        self.assertGreater(self.server.metric("reply_tokens_total"), before)
        self.assertTrue(self.server.json("GET", "/slotstream/status")["loaded"])

    def test_prompts_stay_out_of_the_log(self):
        self.server.json("POST", "/v1/chat/completions", chat("xylophone"))
        with self.assertRaises(AssertionError):
            self.server.json("POST", "/v1/chat/completions", '{"xylophone": ')
        self.assertNotIn("xylophone", "".join(self.server.log))


class Hostile(WithServer):
    def alive(self):
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)

    def status(self, data):
        return int(self.server.raw(data).split()[1])

    def test_heads(self):
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"), 431)
        self.assertEqual(self.status(b"GET /" + b"a" * 70_000), 431)
        post = b"POST /api/chat HTTP/1.1\r\nHost: x\r\n"
        for lines in (b"Content-Length: 5\r\nContent-Length: 6\r\n",
                      b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                      b"Content-Length: five\r\n", b"Content-Length: -5\r\n",
                      b"Content-Length: 99999999999999999999999\r\n",
                      b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: chunked, gzip\r\n",
                      b"Content-Encoding: gzip\r\nContent-Length: 5\r\n", b"no colon\r\n"):
            self.assertEqual(self.status(post + lines + b"\r\nhello"), 400, lines)
        self.assertEqual(self.status(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"), 400)
        self.assertEqual(self.status(b"GET / HTTP/9.9\r\n\r\n"), 400)
        self.alive()

    def test_bodies(self):
        for size in (b"%d" % (33 << 20), b"%d" % (1 << 60)):
            self.assertEqual(self.status(b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: "
                                         + size + b"\r\n\r\n" + b"a" * 100_000), 413)
        for body in (b"[" * 1_000_000, b'{"messages":' * 100_000, b'{"model": "\xff\xfe"}',
                     b'{"model": "\\ud800"}', b"", b"null", b"[]", b'{"messages": [[[]]]}',
                     b'{"prompt": [1e400]}', b'{"tools": [1], "messages": []}',
                     b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"name": 5}]}'):
            for path in ("/api/chat", "/v1/chat/completions", "/v1/messages", "/v1/completions",
                         "/v1/messages/count_tokens", "/tokenize"):
                status, _, text = self.server.ask("POST", path, body)
                load = path == "/api/chat" and b"messages\": []" in body
                self.assertIn(status, (400, 200) if load else (400,), (path, body[:50], text))
                json.loads(text)
        self.alive()

    def test_many_large_bodies(self):
        # Three times nearly the most don't fit into what all may have together.
        connections = []
        head = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LONGEST_BODY
        for _ in range(3):
            connection = self.server.open()
            connection.sendall(head)
            connection.sendall(b"[" * (LONGEST_BODY - 1000))
            connections.append(connection)
        # Whichever came to the bound.
        answered, _, _ = select.select(connections, [], [], PATIENCE)
        refused = answered[0].recv(1000)
        self.assertTrue(refused.startswith(b"HTTP/1.1 503"), refused)
        for connection in connections:
            connection.close()
        wait_until(lambda: self.server.ask("POST", "/api/chat", b"[" * LONGEST_BODY)[0] == 400,
                   "there is room again")

    def test_resets_and_half_requests(self):
        for data in (b"", b"GET", b"GET / HTTP/1.1\r\n", b"POST /api/chat HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: 1000\r\n\r\n{", b"GET /api/tags HTTP/1.1\r\nHost: x\r\n\r\n"):
            connection = self.server.open()
            connection.sendall(data)
            # A reset instead of an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self.alive()

    def test_many_connections(self):
        idle = [self.server.open() for _ in range(400)]
        for connection in idle[:200]:
            connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        self.alive()
        for connection in idle:
            connection.close()
        self.alive()

    def test_clients_that_leave_free_the_engine(self):
        cancelled = self.server.metric("generations_cancelled_total")
        connection = start_stream(self.server)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        wait_until(lambda: self.server.metric("generations_cancelled_total") == cancelled + 1,
                   "a reset stream is cancelled")
        # The same while the prompt is read, for an answer that is no stream.
        body = json.dumps(chat(LONG)).encode()
        with self.server.open() as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            wait_until(lambda: self.server.metric("queue_running") == 1, "it runs")
        wait_until(lambda: self.server.metric("generations_cancelled_total") == cancelled + 2,
                   "a plain answer is cancelled")
        self.assertEqual(self.server.metric("generations_failed_total"), 0)
        answer = self.server.json("POST", "/v1/chat/completions", chat(FRANCE))
        self.assertEqual(answer["choices"][0]["message"]["content"], golden(FRANCE)[0])


class Scheduling(WithServer):
    FLAGS = ("--queue", 2, "--threads", 1)

    def wait_until_quiet(self):
        wait_until(lambda: self.server.metric("queue_running") == 0
                   and self.server.metric("queue_waiting") == 0, "nothing runs")

    tearDown = wait_until_quiet

    def test_metadata_while_it_generates(self):
        with start_stream(self.server):
            wait_until(lambda: self.server.metric("queue_running") == 1, "it runs")
            for path in ("/api/tags", "/api/ps", "/v1/models", "/health", "/api/version"):
                self.assertEqual(self.server.ask("GET", path)[0], 200)
            count = self.server.json("POST", "/v1/messages/count_tokens", {
                "messages": [{"role": "user", "content": "foo"}], "tools": []})
            self.assertGreater(count["input_tokens"], 0)
            self.assertEqual(self.server.metric("queue_running"), 1)

    def test_a_full_queue_says_when_to_come_again(self):
        streams = [start_stream(self.server) for _ in range(3)]  # one runs, two wait
        for path, body in (("/v1/chat/completions", chat("x")), ("/api/chat", chat("x")),
                           ("/v1/messages", {**chat("x"), "stream": True})):
            status, headers, text = self.server.ask("POST", path, body)
            self.assertEqual(status, 503, text)
            self.assertGreater(int(headers["Retry-After"]), 0)
        for connection in streams:
            connection.close()
        self.wait_until_quiet()
        self.server.json("POST", "/v1/chat/completions", chat(FRANCE))

    def test_answers_do_not_depend_on_company(self):
        questions = [FRANCE, "What is 23 + 48?"]
        wild = {"temperature": 1.2, "seed": 11, "max_tokens": 12}
        alone = {q: self.server.json("POST", "/v1/chat/completions", {**chat(q), **wild})
                 ["choices"][0]["message"]["content"] for q in questions}
        failures = []

        def client(number):
            for round_ in range(4):
                question = questions[(number + round_) % 2]
                while True:
                    status, _, text = self.server.ask("POST", "/v1/chat/completions",
                                                      {**chat(question), **wild, "stream": True})
                    if status != 503:
                        break
                    time.sleep(0.05)
                deltas = [json.loads(d)["choices"][0]["delta"] for d in events(text)[:-1]]
                if "".join(d.get("content", "") for d in deltas) != alone[question]:
                    failures.append((question, text))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class KeepAlives(WithServer):
    FLAGS = ("--isa", "scalar", "--ping-seconds", 0.2)

    def alive(self, path, body, life, times=1):
        """The answer to a request that waited until so many keep-alives had come, however fast
        the machine is: until then the engine is busy with a story."""
        with start_stream(self.server) as story:
            wait_until(lambda: self.server.metric("queue_running") == 1, "the story runs")
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            text = b""
            while text.count(life) < times:
                piece = response.read1()
                self.assertNotEqual(piece, b"", text)
                text += piece
            story.close()
            text += response.read()
            connection.close()
            return text.decode()

    def test_keep_alives_are_what_clients_count(self):
        body = {**chat("Hi"), "stream": True, "max_tokens": 1}
        self.alive("/v1/chat/completions", body, b'"delta":{"content":""}')
        self.alive("/v1/messages", body, b'{"type":"text_delta","text":""}')
        thinking = {**body, "thinking": {"type": "adaptive"}}
        text = self.alive("/v1/messages", thinking, b'"type":"thinking_delta","thinking":""')
        kinds = [json.loads(data)["type"] for data in events(text)]
        self.assertEqual(kinds[:3], ["message_start", "ping", "content_block_start"])
        self.assertEqual(kinds[-3:], ["content_block_stop", "message_delta", "message_stop"])
        self.alive("/v1/responses", {**GREEDY, "input": "Hi", "stream": True,
                                     "max_output_tokens": 1},
                   b"event: response.in_progress", times=2)  # the first begins every answer
        self.alive("/api/generate", {"prompt": "Hi", "options": {"num_predict": 1}},
                   b'"response":"","done":false')
        text = self.alive("/v1/messages", {**body, "stream": False}, b" ")
        self.assertEqual(json.loads(text)["type"], "message")


class Access(unittest.TestCase):
    def test_keys(self):
        with Server(BINARY, "--api-key", "sesame", "--allow-origin", "https://good.example") as s:
            for path in ("/v1/models", "/api/tags", "/metrics"):
                self.assertEqual(s.ask("GET", path)[0], 401)
                for key in ("Bearer sesam", "Bearer sesame!", "sesame", "Bearer "):
                    self.assertEqual(s.ask("GET", path, headers={"Authorization": key})[0], 401)
                for header in ({"Authorization": "Bearer sesame"}, {"x-api-key": "sesame"}):
                    self.assertEqual(s.ask("GET", path, headers=header)[0], 200)
            error = s.json("POST", "/v1/messages", {}, status=401)
            self.assertEqual(error["error"]["type"], "authentication_error")
            self.assertEqual(s.ask("GET", "/health")[0], 200)
            self.assertEqual(s.ask("OPTIONS", "/v1/models")[0], 204)
            key = {"x-api-key": "sesame"}
            for origin, status in (("https://good.example", 200), ("https://evil.example", 403),
                                   ("http://localhost.evil.example", 403), ("null", 403),
                                   ("http://127.0.0.1:8080", 200), ("http://[::1]:1", 200)):
                got, headers, _ = s.ask("GET", "/v1/models", headers={**key, "Origin": origin})
                self.assertEqual(got, status, origin)
                allowed = origin if status == 200 else None
                self.assertEqual(headers["Access-Control-Allow-Origin"], allowed)

    def refused(self, *flags):
        result = subprocess.run([BINARY, "serve", "--model", MODEL, *map(str, flags)],
                                capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 1, result.stderr)
        return result.stderr

    def test_refusals_at_the_start(self):
        self.assertIn("--api-key", self.refused("--host", "0.0.0.0", "--port", 0))
        self.assertIn("--host", self.refused("--host", "no.such.host.invalid", "--port", 0,
                                             "--no-auth"))
        with Server(BINARY, wait=False) as server:
            self.assertIn("in use", self.refused("--port", server.port))


class Life(unittest.TestCase):
    def test_requests_wait_for_the_model(self):
        with Server(BINARY, wait=False) as server:
            # As soon as the port is open, so mostly before the model is there.
            answer = server.json("POST", "/v1/chat/completions", chat(FRANCE))
            self.assertEqual(answer["choices"][0]["message"]["content"], golden(FRANCE)[0])

    def test_stopping_ends_streams_in_their_own_form(self):
        server = Server(BINARY, "--grace-seconds", 0)
        with start_stream(server) as running, start_stream(server) as waiting:
            status = []
            stopper = threading.Thread(target=lambda: status.append(server.stop()))
            stopper.start()
            for connection in (running, waiting):
                received = b""
                while chunk := connection.recv(65536):
                    received += chunk
                self.assertIn(b"stopping", received)
                self.assertTrue(received.endswith(b"0\r\n\r\n"), received[-100:])
            stopper.join()
            self.assertEqual(status, [0])

    def test_stopping_lets_an_answer_end(self):
        server = Server(BINARY, "--grace-seconds", 60)
        body = {**STORY, "max_tokens": 20}
        with start_stream(server, body=body) as running:
            stopper = threading.Thread(target=server.stop)
            stopper.start()
            received = b""
            while chunk := running.recv(65536):
                received += chunk
            self.assertIn(b"[DONE]", received)
            stopper.join()


if __name__ == "__main__":
    main()
