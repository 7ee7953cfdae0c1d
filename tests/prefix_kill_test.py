#!/usr/bin/env python3
"""kill -9 at random instants while states of conversations are written: every restart serves what a
cold run does, and the directory is sound.

    prefix_kill_test.py SLOTSTREAM SCRATCH [--kills N] [unittest arguments]

Without --kills it goes on for some 50 seconds. Only the standard library is needed.
"""

import random
import shutil
import signal
import sys
import time
import unittest

KILLS = None
if "--kills" in sys.argv:
    at = sys.argv.index("--kills")
    KILLS = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]

from prefix_talk import words  # noqa: E402
from program import BINARY, SCRATCH, main  # noqa: E402
from serving import GREEDY, Server  # noqa: E402

SECONDS = 50
LEAST = 10
QUOTA_GB = 0.02
CONVERSATIONS, TURNS = 4, 6


def ask(server, messages):
    reply = server.json("POST", "/v1/chat/completions",
                        {"messages": messages, "max_tokens": 8, **GREEDY})
    return (reply["choices"][0]["message"],
            reply["usage"]["prompt_tokens_details"]["cached_tokens"])


class Killed(unittest.TestCase):
    def setUp(self):
        self.path = SCRATCH / "killed"
        shutil.rmtree(self.path, ignore_errors=True)
        # The right replies: [conversation][turn] = (messages, answer).
        self.right = []
        with Server(BINARY, "--no-prefix-cache") as cold:
            for conversation in range(CONVERSATIONS):
                messages, turns = [], []
                for turn in range(TURNS):
                    messages.append({"role": "user", "content": words(
                        120 if turn == 0 else 20, 100 * conversation + turn)})
                    answer, _ = ask(cold, messages)
                    turns.append((list(messages), answer))
                    messages.append(answer)
                self.right.append(turns)

    def test_at_random_instants(self):
        rng = random.Random(3)
        flags = ("--prefix-cache-dir", self.path, "--prefix-cache-min-tokens", 32,
                 "--prefix-cache-gb", QUOTA_GB)
        # How long an end takes that is not disturbed.
        with Server(BINARY, *flags) as server:
            ask(server, self.right[0][0][0])
            begin = time.monotonic()
            server.stop()
            span = time.monotonic() - begin
        end = time.monotonic() + SECONDS
        kills = midway = restored = 0
        while kills < (KILLS or LEAST) or (KILLS is None and time.monotonic() < end):
            server = Server(BINARY, *flags)
            disk = server.json("GET", "/slotstream/status")["prefix_cache"]["disk"]
            self.assertEqual(disk["damaged"], 0, disk)
            for question in range(2):
                messages, answer = rng.choice(rng.choice(self.right))
                got, cached = ask(server, messages)
                self.assertEqual(got, answer)
                restored += question == 0 and cached > 0
            # It writes when it is asked to end.
            server.process.send_signal(signal.SIGTERM)
            if kills % 2 == 0:
                time.sleep(rng.random() * 1.2 * span)
            else:
                # Most of the time no file is being written: wait for one.
                while server.process.poll() is None and not any(self.path.glob("*.part")):
                    pass
                time.sleep(rng.random() * 0.003)
            server.process.kill()
            server.stop()
            kills += 1
            midway += any(file.suffix == ".part" for file in self.path.iterdir())
            held = sum(file.stat().st_size for file in self.path.iterdir()
                       if file.suffix in (".head", ".rows"))
            self.assertLessEqual(held, QUOTA_GB * 1e9)
        print(f"{kills} kills, {midway} of them in the midst of a file; "
              f"{restored} of {kills} restarts found a beginning on disk")
        self.assertGreater(restored, 0)
        with Server(BINARY, *flags):
            self.assertFalse([file for file in self.path.iterdir() if file.suffix == ".part"])


if __name__ == "__main__":
    main()
