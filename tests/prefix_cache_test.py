#!/usr/bin/env python3
"""Conversations are not read twice: the same bytes as a cold run, and only what is new is read.

    prefix_cache_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import json
import re

from prefix_talk import (answer_of, cached, chat, directory, disk_flags, prefix_status, reached, total,
                         user, words)
from program import BINARY, main
from serving import GREEDY, WEATHER, Server, events, wait_until
from with_server import WithServer


class Dialects(WithServer):
    """Cached tokens are counted in every dialect's own way."""

    def test_openai(self):
        first = self.server.json("POST", "/v1/chat/completions", chat([user(words(1000, 1))]))
        self.assertEqual(cached(first), 0)
        history = [user(words(1000, 1)), answer_of(first), user("And then?")]
        second = self.server.json("POST", "/v1/chat/completions", chat(history))
        self.assertEqual(cached(second), reached(first))
        self.assertLess(total(second) - cached(second), 40)
        again = self.server.json("POST", "/v1/chat/completions", chat(history))
        self.assertEqual(cached(again), total(again) - 1)
        self.assertEqual(answer_of(again), answer_of(second))
        wait_until(lambda: f"cached={cached(second)} (memory, turn 2)" in "".join(self.server.log),
              "the log says why")
        self.assertEqual(self.server.metric("prompt_tokens_cached_total") > 0, True)

    def test_responses(self):
        ask = {"input": words(500, 2), "max_output_tokens": 12, **GREEDY}
        first = self.server.json("POST", "/v1/responses", ask)
        self.assertEqual(first["usage"]["input_tokens_details"]["cached_tokens"], 0)
        ask["input"] = [{"role": "user", "content": words(500, 2)}, *first["output"],
                        {"role": "user", "content": "And then?"}]
        usage = self.server.json("POST", "/v1/responses", ask)["usage"]
        self.assertEqual(usage["input_tokens_details"]["cached_tokens"],
                         first["usage"]["input_tokens"] + first["usage"]["output_tokens"] - 1)

    def test_anthropic(self):
        ask = {"messages": [user(words(500, 3))], "max_tokens": 12, "temperature": 0}
        first = self.server.json("POST", "/v1/messages", ask)["usage"]
        self.assertEqual(first["cache_read_input_tokens"], 0)
        whole = first["input_tokens"]
        again = self.server.json("POST", "/v1/messages", ask)["usage"]
        self.assertEqual((again["input_tokens"], again["cache_read_input_tokens"]), (1, whole - 1))
        # Streams tell it at both ends.
        _, _, text = self.server.ask("POST", "/v1/messages", {**ask, "stream": True})
        data = [json.loads(event) for event in events(text)]
        usages = [event["message"]["usage"] for event in data if event["type"] == "message_start"]
        usages += [event["usage"] for event in data if event["type"] == "message_delta"]
        self.assertEqual([(usage["input_tokens"], usage["cache_read_input_tokens"])
                          for usage in usages], [(1, whole - 1)] * 2)

    def test_ollama(self):
        ask = {"messages": [user(words(500, 4))], "stream": False,
               "options": {"num_predict": 12, **GREEDY}}
        first = self.server.json("POST", "/api/chat", ask)
        again = self.server.json("POST", "/api/chat", ask)
        self.assertEqual(again["prompt_eval_count"], first["prompt_eval_count"])
        self.assertEqual(again["message"], first["message"])


class WithCold(WithServer):
    """Beside the server one that reads every prompt from its beginning."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cold = Server(BINARY, "--no-prefix-cache")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        assert cls.cold.stop() == 0

    def expect_as_cold(self, reply, ask):
        cold = self.cold.json("POST", "/v1/chat/completions", ask)
        self.assertEqual((answer_of(reply), cached(cold)), (answer_of(cold), 0))


class LongConversation(WithCold):
    """4,000 tokens, and what may happen to them."""

    def test_its_next_turns(self):
        ask = chat([user(words(3600, 50))])
        first = self.server.json("POST", "/v1/chat/completions", ask)
        self.assertGreaterEqual(total(first), 4000)
        self.expect_as_cold(first, ask)
        history = [*ask["messages"], answer_of(first)]
        following = chat([*history, user("And then?")])
        # Only the new tokens are read: the reply's last, what ends its turn, and the question.
        second = self.server.json("POST", "/v1/chat/completions", following)
        self.assertEqual(cached(second), reached(first))
        self.assertLess(total(second) - cached(second), 40)
        self.expect_as_cold(second, following)
        # Asked again.
        again = self.server.json("POST", "/v1/chat/completions", following)
        self.assertEqual(cached(again), total(again) - 1)
        self.assertEqual(answer_of(again), answer_of(second))
        # Another last turn.
        edited = chat([*history, user("Tell me of an owl instead.")])
        other = self.server.json("POST", "/v1/chat/completions", edited)
        self.assertGreaterEqual(cached(other), reached(first))
        self.expect_as_cold(other, edited)
        # Left in the midst of its reply.
        left = chat([*history, user("Count to one hundred.")], max_tokens=2000, stream=True)
        with self.server.open() as connection:
            data = json.dumps(left).encode()
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            # Its first words: the empty piece before them comes while the prompt is read.
            text = b""
            while not re.search(rb'"content":"[^"]', text):
                text += connection.recv(65536)
        wait_until(lambda: self.server.metric("queue_running") == 0, "it is cancelled")
        left = {**left, "stream": False, "max_tokens": 12}
        reply = self.server.json("POST", "/v1/chat/completions", left)
        self.assertEqual(cached(reply), total(reply) - 1)
        self.expect_as_cold(reply, left)

    def test_from_disk_after_an_eviction_and_a_restart(self):
        path = directory("evicted")
        ask = chat([user(words(3600, 51))])
        # Room for little more than this conversation.
        tight = disk_flags(path, "--prefix-cache-memory-gb", 0.05)
        with Server(BINARY, *tight) as server:
            first = server.json("POST", "/v1/chat/completions", ask)
            wait_until(lambda: prefix_status(server)["disk"]["saved"] > 0, "it is written")
            known = reached(first)
            for other in range(3):
                server.json("POST", "/v1/chat/completions", chat([user(words(3000, 60 + other))]))
            self.assertGreater(sum(prefix_status(server)["evicted"].values()), 0)
            following = chat([*ask["messages"], answer_of(first), user("And then?")])
            second = server.json("POST", "/v1/chat/completions", following)
            self.assertEqual(cached(second), known)
            wait_until(lambda: "(disk, turn 2, read in " in "".join(server.log), "the log says why")
            self.expect_as_cold(second, following)
        with Server(BINARY, *tight) as server:
            again = server.json("POST", "/v1/chat/completions", following)
            self.assertGreaterEqual(cached(again), known)
            self.expect_as_cold(again, following)


class Histories(WithCold):
    """What clients make of a reply on its way back."""

    def test_calls_come_back_in_other_notations(self):
        ask = chat([user("What is the weather in Paris?" + words(200, 5))], tools=[WEATHER],
                   tool_choice="required", max_tokens=60)
        first = self.server.json("POST", "/v1/chat/completions", ask)
        message = answer_of(first)
        call = message["tool_calls"][0]
        arguments = json.loads(call["function"]["arguments"])
        for text in (call["function"]["arguments"], json.dumps(arguments, separators=(",", ":")),
                     json.dumps(dict(reversed(list(arguments.items()))), indent=1)):
            call["function"]["arguments"] = text
            history = [*ask["messages"], message,
                       {"role": "tool", "tool_call_id": call["id"], "content": "Rain."}]
            reply = self.server.json("POST", "/v1/chat/completions",
                                     chat(history, tools=[WEATHER]))
            self.assertGreaterEqual(cached(reply), reached(first), text)

    def test_reasoning_that_is_left_out_or_kept(self):
        ask = chat([user("Why? " + words(200, 6))], reasoning_effort="low", max_tokens=400)
        first = self.server.json("POST", "/v1/chat/completions", ask)
        message = answer_of(first)
        for kept in (True, False):
            back = dict(message)
            if not kept:
                back.pop("reasoning_content", None)
            reply = self.server.json("POST", "/v1/chat/completions",
                                     {**ask, "messages": [*ask["messages"], back, user("So?")]})
            if first["choices"][0]["finish_reason"] == "stop":
                self.assertGreaterEqual(cached(reply), reached(first), kept)

    def test_an_edited_reply_is_read_as_sent(self):
        ask = chat([user(words(300, 7))])
        first = self.server.json("POST", "/v1/chat/completions", ask)
        edited = {**ask, "messages": [*ask["messages"],
                                      {"role": "assistant", "content": "No."}, user("So?")]}
        reply = self.server.json("POST", "/v1/chat/completions", edited)
        self.assertLess(cached(reply), reached(first))
        self.assertGreaterEqual(cached(reply), total(first) - 4)
        self.expect_as_cold(reply, edited)

    def test_a_cancel_in_mid_prefill_and_the_same_again(self):
        ask = chat([user(words(6000, 8))])
        status = lambda: self.server.json("GET", "/slotstream/status")
        before = status()["generations"]["finished"]

        def some_read():
            now = status()
            # Or all of it, on a machine that is faster than this test.
            read = now["prefill"]["done"] if now["prefill"]["total"] > 5000 else 0  # of this one
            return read >= 512 or now["generations"]["finished"] > before

        with self.server.open() as connection:
            data = json.dumps(ask).encode()
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            wait_until(some_read, "some passes are read")
        wait_until(lambda: self.server.metric("queue_running") == 0, "it is cancelled")
        reply = self.server.json("POST", "/v1/chat/completions", ask)
        self.assertGreaterEqual(cached(reply), 512)


if __name__ == "__main__":
    main()
