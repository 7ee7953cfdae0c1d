#!/usr/bin/env python3
"""What of agents' sessions the prefix cache serves: a made one, and recorded ones.

    prefix_agents_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import json
import unittest

from prefix_talk import directory, disk_flags, prefix_status, user, words
from program import BINARY, main
from recordings import turns
from serving import WEATHER, Server


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


if __name__ == "__main__":
    main()
