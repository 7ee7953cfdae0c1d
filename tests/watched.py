"""A server that is looked after: what a hostile client leaves behind in it."""

import json
import os
import time

from serving import GREEDY
from with_server import WithServer

REFERENCE = {"prompt": "Once upon a time", "max_tokens": 12, "logprobs": 3, **GREEDY}
# What a process keeps of the largest request that it ever had, in bytes. With one 32 MiB request at
# a time on each of two workers and the C library's habit of keeping what was freed.
MOST_GROWTH = 400 << 20


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


class Watched(WithServer):
    """One server for the class. After each test it is as it was before the first: it answers, the
    same request gets the same bytes, no connection or descriptor is left, memory is bounded."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.reference = cls.ask_reference()
        cls.descriptors = cls.count_descriptors()
        cls.memory = cls.resident()

    @classmethod
    def ask_reference(cls):
        answer = cls.server.json("POST", "/v1/completions", REFERENCE)
        # What of the prompt was known already is another matter.
        del answer["usage"]["prompt_tokens_details"]
        return json.dumps([answer["choices"], answer["usage"]])

    @classmethod
    def count_descriptors(cls):
        return len(os.listdir(f"/proc/{cls.server.process.pid}/fd"))

    @classmethod
    def resident(cls):
        with open(f"/proc/{cls.server.process.pid}/status") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), self.server.log[-20:])
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        wait_until(lambda: self.server.metric("queue_running") == 0
                   and self.server.metric("queue_waiting") == 0, "the engine is free")
        self.assertEqual(self.ask_reference(), self.reference)
        wait_until(lambda: self.count_descriptors() <= self.descriptors, "all descriptors closed")
        self.assertLess(self.resident() - self.memory, MOST_GROWTH)
        self.assertEqual(self.server.metric("generations_failed_total"), 0)
