#!/usr/bin/env python3
"""Many clients at once, of all dialects, against the real server.

    load_test.py SLOTSTREAM SCRATCH [unittest arguments]
    load_test.py SLOTSTREAM --measure    prints how fast metadata is answered meanwhile

200 short streamed requests from 32 threads: none is lost, and each reply is what the same request
gets alone. Only the standard library is needed.
"""

import json
import random
import sys
import threading
import time
import unittest

from program import BINARY, main
from serving import Server, events

CLIENTS, REQUESTS = 32, 200
QUESTIONS = ("What is the capital of France?", "What is 23 + 48?", "My name is Ana.", "Hello!")


def requests():
    """(path, body) of some different requests; sampled ones too, by seed."""
    made = []
    for number, question in enumerate(QUESTIONS):
        seeded = {"temperature": 1.2, "seed": number} if number % 2 else {"temperature": 0}
        messages = [{"role": "user", "content": question}]
        made += [
            ("/v1/chat/completions", {"messages": messages, "max_tokens": 12, **seeded,
                                      "stream": True, "logprobs": True}),
            ("/v1/messages", {"messages": messages, "max_tokens": 12, **seeded, "stream": True}),
            ("/v1/responses", {"input": question, "max_output_tokens": 12, **seeded,
                               "stream": True}),
            ("/v1/completions", {"prompt": question, "max_tokens": 12, **seeded, "stream": True}),
            ("/api/chat", {"messages": messages, "think": number == 3,
                           "options": {**seeded, "num_predict": 12}}),
            ("/api/generate", {"prompt": question, "options": {**seeded, "num_predict": 12}})]
    return made


def reply(path, text):
    """What a stream says, without ids and times."""
    said = []
    if path.startswith("/api/"):
        for line in text.splitlines():
            piece = json.loads(line)
            said.append(piece.get("message") or piece.get("response"))
            end = piece.get("done_reason")
        return said, end
    for data in events(text):
        if data == "[DONE]":
            return said, "done"
        event = json.loads(data)
        if "choices" in event:
            said.append(event["choices"])
        elif "delta" in event:
            said.append(event["delta"])
        end = event.get("type")
    return said, end


class Load:
    """Sends the requests; `failures` are the replies that differ or never came."""

    def __init__(self, server):
        self.server, self.failures, self.served = server, [], 0
        self.alone = {}
        for number, (path, body) in enumerate(requests()):
            self.alone[number] = reply(path, server.ask("POST", path, body)[2])
        self.lock = threading.Lock()
        self.left = list(range(REQUESTS))

    def client(self, seed):
        chance = random.Random(seed)
        everything = requests()
        while True:
            with self.lock:
                if not self.left:
                    return
                self.left.pop()
            number = chance.randrange(len(everything))
            path, body = everything[number]
            try:
                status, _, text = self.server.ask("POST", path, body, timeout=300)
                good = status == 200 and reply(path, text) == self.alone[number]
            except Exception as error:  # what is lost is counted, not raised in a thread
                good, text = False, repr(error)
            with self.lock:
                self.served += 1
                if not good:
                    self.failures.append((path, text[-500:]))

    def run(self, meanwhile):
        threads = [threading.Thread(target=self.client, args=(seed,)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            meanwhile()
        for thread in threads:
            thread.join()


class Together(unittest.TestCase):
    def test_none_is_lost_and_all_are_as_alone(self):
        with Server(BINARY) as server:
            load = Load(server)
            for path, (said, end) in zip(requests(), load.alone.values()):
                self.assertTrue(said and end, path)
            answered = []
            load.run(lambda: answered.append(server.ask("GET", "/api/tags")[0]))
            self.assertEqual((load.served, load.failures), (REQUESTS, []))
            self.assertEqual(set(answered), {200})
            self.assertEqual(server.metric("generations_failed_total"), 0)
            self.assertEqual(server.metric("generations_cancelled_total"), 0)
            self.assertEqual(server.metric("requests_refused_total"), 0)


def measure():
    with Server(BINARY, "--quiet") as server:
        load = Load(server)
        idle, busy = [], []

        def tags(into):
            start = time.perf_counter()
            server.ask("GET", "/api/tags")
            into.append((time.perf_counter() - start) * 1e3)
            time.sleep(0.005)

        for _ in range(200):
            tags(idle)
        start = time.perf_counter()
        load.run(lambda: tags(busy))
        took = time.perf_counter() - start
    for name, times in (("idle", idle), (f"{CLIENTS} clients", busy)):
        times.sort()
        print(f"/api/tags, {name}: median {times[len(times) // 2]:.1f} ms, 99th percentile "
              f"{times[len(times) * 99 // 100]:.1f} ms, longest {times[-1]:.1f} ms, "
              f"{len(times)} requests")
    print(f"{REQUESTS} generations in {took:.1f} s, {len(load.failures)} failures; 99th percentile "
          f"busy / idle: {busy[len(busy) * 99 // 100] / idle[len(idle) * 99 // 100]:.1f}")


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure()
    else:
        main()
