#!/usr/bin/env python3
"""Clients that do what none should, over bare sockets, against the real server.

    hostile_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed. tests/hostile_bodies_test.py has what hostile requests say.
"""

import json
import random
import re
import resource
import socket
import struct
import threading
import time

from program import main
from serving import LONGEST_BODY, events, golden, wait_until
from watched import Watched

FRANCE = "What is the capital of France?"
WILD = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "stream": True,
        "max_tokens": 4000, "temperature": 1.5}
STREAMS = {
    "/v1/chat/completions": WILD,
    "/v1/completions": {"prompt": "Once", "stream": True, "max_tokens": 4000, "temperature": 1.5},
    "/v1/responses": {"input": "Tell me a story.", "stream": True, "temperature": 1.5},
    "/v1/messages": {**WILD, "thinking": {"type": "adaptive"}},
    "/api/chat": {"messages": WILD["messages"], "options": {"temperature": 1.5}},
    "/api/generate": {"prompt": "Tell me a story.", "options": {"temperature": 1.5}},
}


def post(path, body, *lines):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "".join(line + "\r\n" for line in lines)
    return b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (
        path.encode(), head.encode(), len(data), data)


def reset(connection):
    """A reset instead of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def statuses(received):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", received)]


class Hostile(Watched):
    def received(self, data):
        return self.server.raw(data)

    def answer(self):
        """A short question's answer, however much else goes on."""
        return self.server.json("POST", "/v1/chat/completions", {
            **WILD, "messages": [{"role": "user", "content": FRANCE}], "stream": False,
            "temperature": 0, "presence_penalty": 0})["choices"][0]["message"]["content"]


class Connections(Hostile):
    def test_slow_heads_and_bodies(self):
        slow = [self.server.open() for _ in range(100)]
        for number, connection in enumerate(slow):
            connection.sendall((b"GET / HTTP/1.1\r\nX: ", post("/api/chat", WILD)[:-9])[number % 2])
        stop = threading.Event()

        def drip():
            while not stop.wait(0.2):
                for connection in slow[::2]:
                    try:
                        connection.send(b"a")
                    except OSError:
                        pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            self.assertEqual(self.answer(), golden(FRANCE)[0])
        finally:
            stop.set()
            dripping.join()
        for connection in slow:
            connection.close()

    def test_a_thousand_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
        idle = [self.server.open() for _ in range(1000)]
        self.assertEqual(self.answer(), golden(FRANCE)[0])
        # Beyond what it holds, those that have been idle longest make room.
        idle += [self.server.open() for _ in range(300)]
        self.assertEqual(self.answer(), golden(FRANCE)[0])
        # The same for heads that never end.
        for connection in idle:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nX: ")
            except OSError:
                pass
        self.assertEqual(self.answer(), golden(FRANCE)[0])
        for connection in idle:
            connection.close()

    def test_half_open(self):
        # The client's sending half is closed, so it waits for nothing that takes long; what is
        # known at once still comes.
        for data, expected in ((b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n", [200]),
                               (b"GET /api/version HTTP/1.1\r\nHost: x\r\n", []),
                               (post("/api/chat", WILD)[:-1], []), (b"", [])):
            with self.server.open() as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                received = b""
                while chunk := connection.recv(65536):
                    received += chunk
            self.assertEqual(statuses(received), expected, data)
        for path, body in STREAMS.items():
            with self.server.open() as connection:
                connection.sendall(post(path, body))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    def test_resets_at_many_moments(self):
        chance = random.Random(5)
        for path, body in STREAMS.items():
            request = post(path, body)
            for moment in range(12):
                connection = self.server.open()
                if moment < 4:  # in the midst of the request
                    connection.sendall(request[:chance.randrange(len(request))])
                else:  # and of the answer
                    connection.sendall(request)
                    wanted = chance.choice((0, 1, 100, 1000, 5000))
                    while wanted > 0:
                        wanted -= len(connection.recv(wanted))
                (reset if moment % 2 else socket.socket.close)(connection)
        self.assertEqual(self.answer(), golden(FRANCE)[0])

    def test_connect_and_vanish(self):
        threads = []

        def vanish(number):
            chance = random.Random(number)
            for _ in range(150):
                connection = self.server.open()
                data = chance.choice((b"", b"G", b"\0" * 100, post("/v1/messages", WILD)))
                try:
                    connection.sendall(data)
                except OSError:
                    pass
                (reset if chance.random() < 0.5 else socket.socket.close)(connection)

        for number in range(4):
            threads.append(threading.Thread(target=vanish, args=(number,)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def test_pipelining(self):
        requests = []
        for number in range(40):
            requests.append((b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n",
                             post("/tokenize", {"content": "x" * number}))[number % 2])
        requests.append(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = self.received(b"".join(requests))
        self.assertEqual(statuses(received), [200] * 41)
        counts = [len(json.loads(found)) for found in re.findall(rb'"tokens":(\[.*?\])', received)]
        self.assertEqual(len(counts), 20)
        # Many more than are answered, from a client that reads nothing.
        connection = self.server.open()
        connection.settimeout(3)
        try:
            connection.sendall(b"GET /slotstream/status HTTP/1.1\r\nHost: x\r\n\r\n" * 200_000)
        except OSError:
            pass  # the server reads no further than it answers
        self.assert_grown_by_less_than(64 << 20)
        reset(connection)
        # A stream first, whose end the next request waits for.
        first = post("/v1/chat/completions", {**WILD, "max_tokens": 5})
        self.assertEqual(statuses(self.received(first + requests[-1])), [200, 200])


class Framing(Hostile):
    HIDDEN = b"GET /slotstream/status HTTP/1.1\r\nHost: x\r\n\r\n"

    def test_heads(self):
        for data, status in (
                (b"GET / HTTP/1.1\r\nX: " + b"a" * 65_536 + b"\r\n\r\n", 431),
                (b"GET /" + b"a" * 70_000, 431),
                (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", 431),
                (b"GET / HTTP/1.1\r\n" + b": b\r\n\r\n", 400),
                (b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n", 400), (b"GET / HTTP/2.0\r\n\r\n", 400),
                (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400), (b"GET  / HTTP/1.1\r\n\r\n", 400),
                (b"GET /\0 HTTP/1.1\r\n\r\n", 400), (b"G\xffT / HTTP/1.1\r\n\r\n", 400),
                (b"\r\n\r\n\r\nGET\r\n\r\n", 400), (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
                (b"GET / HTTP/1.1\nHost: x\n\n", 400)):
            self.assertEqual(statuses(self.received(data)), [status], data[:60])
        close = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for path, status in ((b"/%00", 404), (b"/%", 404), (b"/%ff%fe", 404), (b"/..%2f..", 404),
                             (b"/v1" * 20_000, 404), (b"*", 404), (b"http://", 200), (b"?", 200),
                             (b"/v1/models/" + b"%41" * 20_000, 200), (b"/%0d%0aX:%20y", 404)):
            received = self.received(b"GET " + path + close)
            self.assertEqual(statuses(received), [status], path[:60])
            self.assertNotIn(b"\r\nX: y", received)
        # A head just below the bound is none too many.
        long = b"GET /health HTTP/1.1\r\nConnection: close\r\nX: " + b"a" * 65_000 + b"\r\n\r\n"
        self.assertEqual(statuses(self.received(long)), [200])

    def test_lengths_that_contradict(self):
        for lines in (b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 5\r\nContent-Length: 0",
                      b"Content-Length: 0\r\nTransfer-Encoding: chunked",
                      b"Transfer-Encoding: chunked\r\nContent-Length: 0",
                      b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked",
                      b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, identity",
                      b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
                      b"Content-Length: +5", b"Content-Length: 0x5", b"Content-Length: 5 5",
                      b"Content-Length: -0", b"Content-Length: 18446744073709551616",
                      b"Content-Length: \xd9\xa5"):
            received = self.received(b"POST /api/show HTTP/1.1\r\nHost: x\r\n" + lines
                                     + b"\r\n\r\n0\r\n\r\n" + self.HIDDEN)
            self.assertEqual(statuses(received), [400], lines)

    def test_chunks(self):
        head = b"POST /api/show HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunks in (b"-1\r\n", b"g\r\n", b"0x1\r\na\r\n", b"fffffffffffffffff\r\na",
                       b"1\r\naa\r\n", b"1\na\r\n", b"2\r\n{}", b"\r\n"):
            received = self.received(head + chunks + b"0\r\n\r\n" + self.HIDDEN)
            self.assertEqual(statuses(received), [400], chunks)
        many = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"model": "x"}')
        received = self.received(head.replace(b"Host: x", b"Connection: close") + many
                                 + b"0\r\n\r\n")
        self.assertEqual(statuses(received), [200])

    def test_bodies_over_the_limit(self):
        for size in LONGEST_BODY + 1, 1 << 60:
            data = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
            received = self.received(data + b"a" * 100_000)
            self.assertEqual(statuses(received), [413])
            self.assertIn(b"%d" % LONGEST_BODY, received)
        head = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        piece = b"%x\r\n%s\r\n" % (1 << 16, b"a" * (1 << 16))
        self.assertEqual(statuses(self.received(head + piece * (LONGEST_BODY // (1 << 16) + 1))), [413])


class Readers(Hostile):
    FLAGS = ("--max-context", 16384)

    def slow_reader(self, path, body):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", self.server.port))
        connection.sendall(post(path, body))
        return connection

    def test_one_who_never_reads_a_long_stream(self):
        # Each token with twenty others is some kilobytes, so that sockets can't hold the reply; any
        # token is as likely as another, so that it goes on.
        cancelled = self.server.metric("generations_cancelled_total")
        endless = {**WILD, "max_tokens": 16_000, "logprobs": True, "top_logprobs": 20,
                   "temperature": 50, "top_p": 1, "top_k": 0, "seed": 1}
        with self.slow_reader("/v1/chat/completions", endless):
            wait_until(lambda: self.server.metric("queue_running") == 1, "it runs")
            self.assertEqual(self.server.ask("GET", "/api/tags")[0], 200)
            wait_until(lambda: self.server.metric("generations_cancelled_total") == cancelled + 1,
                       "the engine is free of a reply that nobody takes")
            self.assertEqual(self.answer(), golden(FRANCE)[0])
        self.assert_grown_by_less_than(64 << 20)

    def test_many_who_never_read(self):
        asked = [self.slow_reader("/tokenize", {"content": "a b " * 100_000}) for _ in range(30)]
        asked += [self.slow_reader("/v1/chat/completions", {**WILD, "max_tokens": 20})
                  for _ in range(10)]
        self.assertEqual(self.answer(), golden(FRANCE)[0])
        for connection in asked:
            reset(connection)

    def test_one_who_reads_slowly_gets_all(self):
        body = {**WILD, "max_tokens": 400, "seed": 3, "logprobs": True, "top_logprobs": 5}
        _, _, expected = self.server.ask("POST", "/v1/chat/completions", body)
        with self.slow_reader("/v1/chat/completions", body) as connection:
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += connection.recv(3000)
                time.sleep(0.001)
        text = received.split(b"\r\n\r\n", 1)[1].decode()
        choices = [json.loads(data)["choices"] for data in events(expected)[:-1]]
        got = [json.loads(data)["choices"] for data in events(text)[:-1]]
        self.assertEqual(got, choices)


if __name__ == "__main__":
    main()
