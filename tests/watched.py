"""A server that is looked after: what a hostile client leaves behind in it."""

import json
import os

from serving import GREEDY, SANITIZED, wait_until
from with_server import WithServer

REFERENCE = {"prompt": "Once upon a time", "max_tokens": 12, "logprobs": 3, **GREEDY}


class Watched(WithServer):
    """One server for the class. After each test it is as it was before the first: it answers, the
    same request gets the same bytes, no connection or descriptor is left, and its memory was never
    larger than planned: by the line for requests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.reference = cls.ask_reference()
        cls.descriptors = cls.count_descriptors()
        cls.memory = cls.resident()
        status = cls.server.json("GET", "/slotstream/status")
        cls.planned = status["plan"]["ledger_bytes"]["requests"]

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
    def resident(cls, which="VmRSS"):
        with open(f"/proc/{cls.server.process.pid}/status") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith(which))

    def assert_grown_by_less_than(self, most, which="VmRSS"):
        if not SANITIZED:
            self.assertLess(self.resident(which) - self.memory, most)

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), self.server.log[-20:])
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        wait_until(lambda: self.server.metric("queue_running") == 0
                   and self.server.metric("queue_waiting") == 0, "the engine is free")
        self.assertEqual(self.ask_reference(), self.reference)
        wait_until(lambda: self.count_descriptors() <= self.descriptors, "all descriptors closed")
        self.assert_grown_by_less_than(self.planned, "VmHWM")
        self.assertEqual(self.server.metric("generations_failed_total"), 0)
