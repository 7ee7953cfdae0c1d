#!/usr/bin/env python3
"""The program and the machine's memory: limits, pressure, other engines, doctor.

    memory_test.py SLOTSTREAM SCRATCH [unittest arguments]
"""

import json
import os
import re
import subprocess
import unittest

import memory_hog
import memory_limits
from miniature import MODEL
from program import BINARY, SCRATCH, main

FORECASTS = ("decode", "prefill")


def doctor(*arguments, **environment):
    result = subprocess.run([BINARY, "doctor", *map(str, arguments)], capture_output=True,
                            text=True, timeout=120, env={**os.environ, **environment})
    if result.returncode != 0:
        raise AssertionError(f"exit status {result.returncode}: {result.stderr}")
    return result.stdout


class Doctor(unittest.TestCase):
    def setUp(self):
        self.cache = SCRATCH / "cache"

    def report(self, *arguments):
        return json.loads(doctor("--json", *arguments, XDG_CACHE_HOME=str(self.cache)))

    def test_measures_once_and_remembers(self):
        first = self.report("--model", MODEL, "--measure")
        self.assertEqual(first["disk"]["source"], "measured")
        self.assertGreater(first["disk"]["rates"]["full"][0], 0)
        second = self.report("--model", MODEL)
        self.assertEqual(second["disk"]["source"], "profile")
        self.assertEqual(second["disk"]["rates"], first["disk"]["rates"])
        # The model's file is another one now.
        copy = SCRATCH / "copy"
        subprocess.run(["cp", "-r", MODEL, copy], check=True)
        self.assertEqual(self.report("--model", copy)["disk"]["source"], "measured")

    def test_simulations(self):
        machines = {}
        for memory in (8, 12, 16, 24, 32, 48, 64, 96, 128):
            for disk in (0.5, 1.5, 3.5, 7, 14):
                if memory in (8, 32, 128) or disk == 1.5:  # the corners and a cross
                    machines[memory, disk] = self.report("--sim-ram", memory, "--sim-disk", disk)
        for (memory, disk), report in machines.items():
            self.assertNotIn("refused", report["plan"], memory)
            self.assertLessEqual(report["plan"]["total_bytes"], memory * 1e9)
            slow = any("slow" in warning for warning in report["warnings"])
            self.assertEqual(slow, disk < 1)
        table = machines[8, 0.5]["table"]
        self.assertEqual(len(table), 9)
        # Along memory, and along the assumed disks. Each run times the processor anew, so only
        # figures of one run compare.
        for kind in FORECASTS:
            for level in range(3):
                grid = [[forecast[kind][level] for forecast in row["forecasts"][1:]]
                        for row in table]
                for line in [*grid, *zip(*grid)]:
                    for less, more in zip(line, line[1:]):
                        self.assertLessEqual(less, more * (1 + 1e-12))  # but for rounding

    def test_a_machine_too_small_gets_a_clear_no(self):
        page = doctor("--sim-ram", 4, "--sim-disk", 1)
        self.assertIn("plan      none: ", page)
        self.assertIn("are needed (trunk 2.93 GB", page)

    def test_one_page_without_private_paths(self):
        home = SCRATCH / "home"
        (home / "models").mkdir(parents=True)
        subprocess.run(["cp", "-r", MODEL, home / "models" / "m"], check=True)
        for flags in ([], ["--json"]):
            page = doctor("--model", home / "models" / "m", *flags, HOME=str(home),
                          XDG_CACHE_HOME=str(self.cache))
            self.assertIn("~/models/m", page)
            self.assertNotIn(str(home), page)
            self.assertNotIn(os.uname().nodename, page)
        page = doctor("--model", MODEL, XDG_CACHE_HOME=str(self.cache))
        self.assertLess(page.count("\n"), 60)
        for heading in ("processor", "memory", "disk", "speed", "plan", "forecast"):
            self.assertRegex(page, f"(?m)^{heading} ")


class Engines(unittest.TestCase):
    def test_the_second_knows_the_first(self):
        runtime = SCRATCH / "runtime"
        runtime.mkdir()
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        command = [BINARY, "chat", "--model", str(MODEL)]
        first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, env=environment)
        for line in first.stderr:
            if line.startswith("plan:"):
                break
        self.assertIn(f"process {first.pid}, planned", doctor(XDG_RUNTIME_DIR=str(runtime)))
        second = subprocess.run(command, input="", capture_output=True, text=True, env=environment,
                                timeout=60)
        self.assertIn(f"another slotstream, process {first.pid}", second.stderr)
        first.kill()
        first.wait()
        first.stderr.close()
        first.stdin.close()
        third = subprocess.run(command, input="", capture_output=True, text=True, env=environment,
                               timeout=60)
        self.assertNotIn("another slotstream", third.stderr)


@unittest.skipUnless(memory_limits.can_limit(), "needs root and version 1 of the memory controller")
class Limits(unittest.TestCase):
    def test_a_checkpoint_larger_than_the_limit(self):
        found = memory_limits.measure(BINARY, SCRATCH, 96)
        self.assertGreater(found["checkpoint"], found["limit"])
        self.assertLess(found["slots"], found["free_slots"])
        self.assertLessEqual(found["resident_peak"], found["plan"])
        self.assertLess(found["plan"], found["limit"])
        self.assertTrue(found["same"])

    def test_a_hog_comes_and_goes(self):
        """Another process of the group takes memory during a reply, and gives it back."""
        result = memory_hog.reply(BINARY, SCRATCH, group_mb=160, hog_mb=90, tokens=4000)
        found, log = result["found"], [line for _, line in result["log"]]
        self.assertEqual(result["status"], 0, log)
        self.assertEqual(result["expected"]["governor"]["shrinks"], 0)
        self.assertEqual(found["output_ids"], result["expected"]["output_ids"])
        self.assertGreater(found["governor"]["shrinks"], 0, log)
        self.assertTrue(any(re.search(r"memory: .* expert slots \(were", line) for line in log))
        self.assertLessEqual(found["peak_resident_bytes"], found["plan"]["total_bytes"])


if __name__ == "__main__":
    main()
