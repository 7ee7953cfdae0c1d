#!/usr/bin/env python3
"""The prefix cache on disk: restarts, damage, full disks, foreign files, two processes, clocks.

    prefix_disk_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed.
"""

import json
import os
import random
import subprocess
import time
import unittest

from prefix_talk import (answer_of, cached, chat, directory, disk_flags, prefix_status, reached, user,
                         words)
from program import BINARY, SCRATCH, main
from serving import Server, wait_until


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
            wait_until(lambda: "(disk, turn 2, read in " in "".join(server.log), "the log says why")
            status = prefix_status(server)["disk"]
            self.assertEqual(status["hits"], 1)
            self.assertGreaterEqual(status["read_ms"], status["waited_ms"])
            self.assertIn("slotstream_prefix_disk_wait_seconds_total", server.ask("GET", "/metrics")[2])
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
                wait_until(lambda: prefix_status(server)["disk"]["last_reason"], "the reason is told")
                self.assertIn("left", prefix_status(server)["disk"]["last_reason"])
                self.go_on(server)
            self.assertEqual([file.name for file in self.path.iterdir()], ["lock"])
        finally:
            subprocess.run(["umount", self.path], check=True)


if __name__ == "__main__":
    main()
