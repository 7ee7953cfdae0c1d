#!/usr/bin/env python3
"""What agents were seen to send (tests/agents.py --record), sent again.

    recordings_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import json

from program import main
from recordings import RECORDINGS, expand
from serving import events
from with_server import WithServer

# Replies need not be long to be in the right form.
REPLY = 8
LIMITS = ("max_tokens", "max_output_tokens")


class Recordings(WithServer):
    FLAGS = ("--max-context", 131072)

    def check_stream(self, path, text):
        """The stream begins and ends as its dialect's must."""
        if "chat/completions" in path:
            self.assertEqual(events(text)[-1], "[DONE]")
            last = [json.loads(event) for event in events(text)[:-1]]
            self.assertTrue(any(c["finish_reason"] for e in last for c in e["choices"]))
            self.assertGreater(last[-1]["usage"]["prompt_tokens"], 0)
            return
        kinds = [json.loads(event)["type"] for event in events(text)]
        if "messages" in path:
            self.assertEqual((kinds[0], kinds[-1]), ("message_start", "message_stop"))
        else:
            self.assertEqual(kinds[:2], ["response.created", "response.in_progress"])
            self.assertIn(kinds[-1], ("response.completed", "response.incomplete"))

    def replay(self, name):
        requests = json.loads((RECORDINGS / f"{name}.json").read_text())
        generations = 0
        for request in requests:
            body = request["body"]
            if body is not None:
                body = expand(body)
                for limit in LIMITS:
                    if limit in body or (limit == LIMITS[1] and "input" in body):
                        body[limit] = REPLY
            status, _, text = self.server.ask(request["method"], request["path"], body,
                                              request["headers"])
            self.assertEqual(status, request["status"], (request["path"], text[:500]))
            if body is not None and body.get("stream"):
                self.check_stream(request["path"], text)
                generations += 1
        self.assertGreater(generations, 0)

    def test_claude_code(self):
        self.replay("claude_code")

    def test_codex(self):
        self.replay("codex")

    def test_opencode(self):
        self.replay("opencode")


if __name__ == "__main__":
    main()
