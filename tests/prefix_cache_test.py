#!/usr/bin/env python3
"""Conversations are never read twice: in memory, on disk, after kill -9, whatever lies in the
directory.

    prefix_cache_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import json
import os
import random
import shutil
import subprocess
import time
import unittest

from program import BINARY, SCRATCH, main
from recordings import turns
from serving import GREEDY, WEATHER, Server, events
from with_server import WithServer

WORDS = "one two three four five six seven eight nine ten fox owl river stone".split()


def words(count, seed):
    return " ".join(random.Random(seed).choice(WORDS) for _ in range(count))


def chat(messages, **more):
    return {"messages": messages, "max_tokens": 12, **GREEDY, **more}


def user(text):
    return {"role": "user", "content": text}


def directory(name):
    path = SCRATCH / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def disk_flags(path, *more):
    return ["--prefix-cache-dir", path, "--prefix-cache-min-tokens", 64, *more]


def answer_of(reply):
    return reply["choices"][0]["message"]


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def total(reply):
    return reply["usage"]["prompt_tokens"]


def reached(reply):
    """Tokens that a state holds after this reply: all but the last, which was not read."""
    return total(reply) + reply["usage"]["completion_tokens"] - 1


def prefix_status(server):
    return server.json("GET", "/slotstream/status")["prefix_cache"]


def until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


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
        until(lambda: f"cached={cached(second)} (memory, turn 2)" in "".join(self.server.log),
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
            while b"content" not in connection.recv(65536):
                pass
        until(lambda: self.server.metric("queue_running") == 0, "it is cancelled")
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
            until(lambda: prefix_status(server)["disk"]["saved"] > 0, "it is written")
            known = reached(first)
            for other in range(3):
                server.json("POST", "/v1/chat/completions", chat([user(words(3000, 60 + other))]))
            self.assertGreater(sum(prefix_status(server)["evicted"].values()), 0)
            following = chat([*ask["messages"], answer_of(first), user("And then?")])
            second = server.json("POST", "/v1/chat/completions", following)
            self.assertEqual(cached(second), known)
            until(lambda: "(disk, turn 2)" in "".join(server.log), "the log says why")
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
        with self.server.open() as connection:
            data = json.dumps(ask).encode()
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            until(lambda: self.server.metric("queue_running") == 1, "it runs")
            time.sleep(1)
        until(lambda: self.server.metric("queue_running") == 0, "it is cancelled")
        reply = self.server.json("POST", "/v1/chat/completions", ask)
        self.assertGreaterEqual(cached(reply), 512)


class Agents(unittest.TestCase):
    """Twenty turns of an agent, with sub-agents, titles and memory notes beside them."""

    SYSTEM = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.{};"},
              {"type": "text", "text": "You are a careful agent."},
              {"type": "text", "text": words(1500, 100)}]
    TOOL = {"name": "get_weather", "description": words(400, 101),
            "input_schema": WEATHER["function"]["parameters"]}

    def ask(self, server, code, messages, tools=True, session="s", agent=None, system=None):
        body = {"model": "claude", "max_tokens": 16, "temperature": 0, "messages": messages,
                "system": json.loads(json.dumps(system or self.SYSTEM).replace("{}", code))}
        if tools:
            body["tools"] = [self.TOOL]
        headers = {"X-Claude-Code-Session-Id": session}
        if agent:
            headers["x-claude-code-agent-id"] = agent
        return server.json("POST", "/v1/messages", body, headers)

    def session(self, server, path=None):
        """Runs it; yields the bytes written to disk after each turn."""
        written = []
        messages = [user("Begin. " + words(60, 102))]
        for turn in range(20):
            reply = self.ask(server, "abc", messages)
            messages.append({"role": "assistant", "content": reply["content"]})
            if turn % 5 == 1:
                notes = [user("Look. " + words(40, turn))]
                for step in range(4):
                    helped = self.ask(server, "def", notes, agent=f"a{turn}",
                                      system=[{"type": "text", "text": words(700, 103)}])
                    notes.append({"role": "assistant", "content": helped["content"]})
                    notes.append(user(f"Step {step}. " + words(20, 1000 * turn + step)))
            if turn % 3 == 0:
                self.ask(server, "ghi", [user(f"Title of {words(30, 5000 + turn)}")], tools=False,
                         system=[{"type": "text", "text": "Write a title. " + words(150, 104)}])
            messages.append(user(f"Turn {turn}. " + words(25, 9000 + turn)))
            if path:
                written.append(prefix_status(server)["disk"]["bytes_written"])
        return written

    def test_nearly_all_that_can_be_served_is(self):
        with Server(BINARY) as server:
            self.ask(server, "abc", [user("Begin. " + words(60, 102))])
            before = prefix_status(server)
            self.session(server)
            after = prefix_status(server)
            known = after["tokens_known"] - before["tokens_known"]
            served = after["tokens_served"] - before["tokens_served"]
            print(f"ample memory: served {served} of {known}, "
                  f"asked {after['tokens_asked'] - before['tokens_asked']}")
            self.assertGreaterEqual(served, 0.95 * known)
            self.assertEqual(sum(after["evicted"].values()), 0)
            ample = known
            # Another session of another day shares tools and system.
            reply = self.ask(server, "xyz", [user("Hello.")], session="t")
            usage = reply["usage"]
            self.assertGreater(usage["cache_read_input_tokens"], 10 * usage["input_tokens"])
        # The same within a third of the memory that it would like.
        tight = after["bytes"] / 3 / 1e9
        with Server(BINARY, "--prefix-cache-memory-gb", tight) as server:
            self.ask(server, "abc", [user("Begin. " + words(60, 102))])
            before = prefix_status(server)
            self.session(server)
            after = prefix_status(server)
            served = after["tokens_served"] - before["tokens_served"]
            print(f"in {after['budget_bytes']} bytes: served {served} of {ample}, "
                  f"evicted {after['evicted']}")
            self.assertGreater(sum(after["evicted"].values()), 20)
            # What went first is read again.
            self.assertGreaterEqual(served, 0.95 * ample)
            self.assertLessEqual(after["bytes"], after["budget_bytes"])
            reply = self.ask(server, "xyz", [user("Hello.")], session="t")
            usage = reply["usage"]
            self.assertGreater(usage["cache_read_input_tokens"], 10 * usage["input_tokens"])

    def test_a_turn_writes_little(self):
        path = directory("agent")
        with Server(BINARY, *disk_flags(path)) as server:
            written = self.session(server, path)
            print(f"MB written after each turn: {[round(b / 1e6, 1) for b in written]}")
            # A head of 0.75 MB each time, and 2.1 kB for each token that was read or made, once.
            status = prefix_status(server)
            tokens = status["tokens_asked"] - status["tokens_served"] + 16 * status["requests"]
            self.assertLess(written[-1], 1e6 * status["disk"]["saved"] + 2500 * tokens)
        with Server(BINARY, *disk_flags(path)) as server:
            status = prefix_status(server)["disk"]
            print(f"on disk: {status['states']} states, {status['bytes']} bytes")
            reply = self.ask(server, "abc", [user("Begin. " + words(60, 102))])
            self.assertGreater(reply["usage"]["cache_read_input_tokens"], 1000)


class Recorded(unittest.TestCase):
    """Sessions of agents as they were recorded; their replies are not ours."""

    def replay(self, name):
        known = served = 0
        sessions = set()
        with Server(BINARY, "--max-context", 65536) as server:
            for request in turns(name):
                body = {**request["body"], "stream": False}
                body["max_output_tokens" if "input" in body else "max_tokens"] = 8
                # Whether replies can be held to a schema is no matter here.
                body.get("output_config", {}).pop("format", None)
                # A sub-agent with tools of its own begins a session of its own.
                session = (request["session"], len(body.get("tools", [])))
                before = prefix_status(server)
                server.json("POST", request["path"], body, request["headers"])
                after = prefix_status(server)
                if session in sessions:
                    known += after["tokens_known"] - before["tokens_known"]
                    served += after["tokens_served"] - before["tokens_served"]
                sessions.add(session)
        share = known / after["tokens_asked"]
        print(f"{name}: served {served} of {known} tokens, {share:.0%} of all; {after['states']} "
              f"states in {after['bytes']} of {after['budget_bytes']} bytes")
        self.assertGreater(share, 0.5)
        self.assertGreaterEqual(served, 0.95 * known)
        self.assertLessEqual(after["bytes"], after["budget_bytes"])

    def test_claude_code(self):
        self.replay("claude_code")

    def test_codex(self):
        self.replay("codex")


class Disk(unittest.TestCase):
    ASK = chat([user(words(700, 20))])

    def setUp(self):
        self.path = directory("prefixes")
        with Server(BINARY, "--no-prefix-cache") as cold:
            self.first = cold.json("POST", "/v1/chat/completions", self.ASK)
            self.next = chat([*self.ASK["messages"], answer_of(self.first), user("And then?")])
            self.second = cold.json("POST", "/v1/chat/completions", self.next)

    def begin(self, *flags):
        with Server(BINARY, *disk_flags(self.path, *flags)) as server:
            reply = server.json("POST", "/v1/chat/completions", self.ASK)
            self.assertEqual(answer_of(reply), answer_of(self.first))
            self.reached = reached(reply)
        # SIGTERM wrote it.
        return {file.name: file.read_bytes() for file in self.path.iterdir()}

    def go_on(self, server, expect=None):
        reply = server.json("POST", "/v1/chat/completions", self.next)
        self.assertEqual(answer_of(reply), answer_of(self.second))
        if expect is not None:
            self.assertEqual(cached(reply), expect)
        return reply

    def test_a_restart(self):
        self.begin()
        with Server(BINARY, *disk_flags(self.path)) as server:
            self.go_on(server, self.reached)
            until(lambda: "(disk, turn 2)" in "".join(server.log), "the log says why")
        # Another compute mode has other bits.
        with Server(BINARY, *disk_flags(self.path), "--compute", "exact") as server:
            reply = server.json("POST", "/v1/chat/completions", self.next)
            self.assertEqual(cached(reply), 0)

    def test_no_store(self):
        with Server(BINARY, *disk_flags(self.path)) as server:
            server.json("POST", "/v1/chat/completions", self.ASK, {"Cache-Control": "no-store"})
        self.assertEqual([file.name for file in self.path.iterdir()], ["lock"])

    def test_damage_of_every_kind(self):
        files = self.begin()
        rng = random.Random(1)
        for round in range(6):
            for name, contents in files.items():
                (self.path / name).write_bytes(contents)
            for extra in self.path.iterdir():
                if extra.name not in files:
                    extra.unlink()
            victim = rng.choice([name for name in files if name != "lock"])
            data = bytearray(files[victim])
            if round % 3 == 2:
                data = data[:rng.randrange(len(data))]
            else:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            (self.path / victim).write_bytes(data)
            (self.path / "notes.txt").write_text("mine")
            with Server(BINARY, *disk_flags(self.path)) as server:
                self.go_on(server)
                status = prefix_status(server)["disk"]
                self.assertGreater(status["damaged"], 0, victim)
                self.assertTrue(status["last_reason"], victim)
            self.assertEqual((self.path / "notes.txt").read_text(), "mine")

    def test_directories_that_cannot_be_used(self):
        file = SCRATCH / "a-file"
        file.write_text("x")
        for path in (file, "/proc/nowhere", "/sys"):
            with Server(BINARY, *disk_flags(path)) as server:
                self.go_on(server)
                self.assertTrue(prefix_status(server)["disk"]["problem"])
                self.assertTrue(any("no prefix cache on disk" in line for line in server.log))

    def test_two_processes(self):
        with Server(BINARY, *disk_flags(self.path)), \
                Server(BINARY, *disk_flags(self.path)) as second:
            self.go_on(second)
            self.assertIn("process", prefix_status(second)["disk"]["problem"])
            clear = subprocess.run([BINARY, "prefix-cache", "--dir", self.path, "--clear"],
                                   capture_output=True, text=True)
            self.assertEqual(clear.returncode, 1)

    def test_the_command(self):
        self.begin()
        def command(*flags):
            return subprocess.run([BINARY, "prefix-cache", "--dir", self.path, *flags],
                                  capture_output=True, text=True, check=True).stdout
        listed = json.loads(command("--json"))
        states = [file for file in listed["files"] if "tokens" in file]
        self.assertIn(self.reached, [file["tokens"] for file in states])
        self.assertIn(f"{len(states)} states", command())
        self.assertGreater(json.loads(command("--clear", "--json"))["removed_bytes"], 0)
        self.assertEqual(json.loads(command("--json"))["files"], [])

    def test_clocks_that_jump(self):
        self.begin()
        day = 24 * 3600
        for days, expect in ((10_000, self.reached), (-10, self.reached), (-40, 0)):
            for file in self.path.iterdir():
                os.utime(file, (time.time() + days * day,) * 2)
            with Server(BINARY, *disk_flags(self.path)) as server:
                self.go_on(server, expect)

    def test_a_full_disk(self):
        self.path.mkdir(parents=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", self.path],
                          capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount")
        try:
            with Server(BINARY, *disk_flags(self.path)) as server:
                server.json("POST", "/v1/chat/completions", self.ASK)
                until(lambda: prefix_status(server)["disk"]["last_reason"], "the reason is told")
                self.assertIn("left", prefix_status(server)["disk"]["last_reason"])
                self.go_on(server)
            self.assertEqual([file.name for file in self.path.iterdir()], ["lock"])
        finally:
            subprocess.run(["umount", self.path], check=True)


if __name__ == "__main__":
    main()
