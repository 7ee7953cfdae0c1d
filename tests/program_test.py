#!/usr/bin/env python3
"""The program as users run it: flags, texts, exit codes, files, signals.

    program_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed. Expected replies come from the miniature's goldens, so that
another miniature needs no change here.
"""

import json
import random
import shutil
import signal
import subprocess
import time
import unittest

from miniature import GOLDENS, MODEL
from program import (BINARY, CLEAR_MARGIN, SCRATCH, answer_of, main, plain_cases, prompt_of, run,
                     slotstream)

MEGABYTE = 1_000_000


class Answers(unittest.TestCase):
    def test_greedy_replies_equal_the_goldens(self):
        cases = plain_cases(think=False)
        self.assertGreater(len(cases), 3)
        for case in cases[:5]:
            result = run("--greedy", "--prompt", prompt_of(case), "--effort",
                         case["reasoning_effort"])
            self.assertEqual(result.stdout, answer_of(case) + "\n")

    def test_reasoning_stays_out_of_stdout(self):
        case = plain_cases(think=True)[0]
        result = run("--greedy", "--think", "--effort", case["reasoning_effort"], "--prompt",
                     prompt_of(case))
        self.assertEqual(result.stdout, answer_of(case) + "\n")
        self.assertIn(case["output_text"].split("</think>")[0].strip(), result.stderr)

    def test_prompt_by_file_and_standard_input(self):
        case = plain_cases(think=False)[0]
        file = SCRATCH / "prompt.txt"
        file.write_text(prompt_of(case))
        for result in (run("--greedy", "--prompt-file", file),
                       run("--greedy", stdin=prompt_of(case)),
                       run("--greedy", "--prompt-file", "-", stdin=prompt_of(case))):
            self.assertEqual(result.stdout, answer_of(case) + "\n")

    def test_ids_and_raw_text_are_the_same_prompt(self):
        case = plain_cases(think=False)[0]
        ids = ",".join(map(str, case["prompt_ids"]))
        self.assertEqual(run("--greedy", "--ids", ids).stdout, answer_of(case) + "\n")
        self.assertEqual(run("--greedy", "--raw", "--prompt", case["prompt"]).stdout,
                         answer_of(case) + "\n")

    def test_seed_decides_the_reply(self):
        flags = ["--prompt", "Tell me a story.", "--seed", 7, "--temperature", 1.5, "--max-tokens",
                 40]
        first = run(*flags, "--slots", 8, "--threads", 1).stdout
        self.assertEqual(run(*flags, "--pass", 5).stdout, first)
        others = {run("--prompt", "Tell me a story.", "--seed", seed, "--temperature", 1.5,
                      "--max-tokens", 40).stdout for seed in range(4)}
        self.assertGreater(len(others), 1)

    def test_stop_and_length(self):
        case = next(c for c in plain_cases(think=False) if len(answer_of(c).split()) > 2)
        words = answer_of(case).split(" ")
        result = run("--greedy", "--prompt", prompt_of(case), "--stop", words[1])
        self.assertEqual(result.stdout.strip(), words[0])
        stats = SCRATCH / "stats.json"
        run("--greedy", "--prompt", prompt_of(case), "--max-tokens", 3, "--stats-json", stats)
        self.assertEqual(json.loads(stats.read_text())["output_ids"], case["output_ids"][:3])
        self.assertEqual(json.loads(stats.read_text())["finish_reason"], "length")

    def test_chat_remembers(self):
        case = next(c for c in GOLDENS if len(c["messages"]) == 3 and not c["tools"]
                    and not c["think"] and c["min_margin"] >= CLEAR_MARGIN)
        questions = [m["content"] for m in case["messages"] if m["role"] == "user"]
        result = slotstream("chat", "--model", MODEL, "--greedy", stdin="\n".join(questions) + "\n")
        self.assertEqual(result.stdout.splitlines()[-1], answer_of(case))
        # A fresh conversation does not know.
        result = slotstream("chat", "--model", MODEL, "--greedy",
                            stdin="\n".join([questions[0], "/clear", questions[1]]) + "\n")
        self.assertNotEqual(result.stdout.splitlines()[-1], answer_of(case))


class Memory(unittest.TestCase):
    def test_smallest_pool_stays_small(self):
        stats_file = SCRATCH / "memory.json"
        slots = 2 * json.loads((MODEL / "config.json").read_text())["text_config"][
            "num_experts_per_tok"]
        run("--greedy", "--prompt", "Hello", "--slots", slots, "--stats-json", stats_file)
        stats = json.loads(stats_file.read_text())
        ledger = stats["plan"]["ledger_bytes"]
        limit = ledger["trunk"] + ledger["expert pool"] + 64 * MEGABYTE
        self.assertEqual(stats["plan"]["slots"], slots)
        self.assertLess(stats["peak_resident_bytes"], limit)
        self.assertLess(stats["peak_resident_bytes"], stats["plan"]["total_bytes"])
        print(f"\npeak {stats['peak_resident_bytes'] / 1e6:.1f} MB, limit {limit / 1e6:.1f} MB, "
              f"plan {stats['plan']['total_bytes'] / 1e6:.1f} MB")

    def test_impossible_wishes_are_refused(self):
        for flags, word in ((["--memory-gb", 0.01], "at least"), (["--slots", 1], "--slots 1"),
                            (["--memory-gb", "nan"], "nan"), (["--pass", 100000], "--pass")):
            result = run("--prompt", "Hi", *flags, check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(word, result.stderr)
            self.assertEqual(result.stdout, "")


class Errors(unittest.TestCase):
    def expect(self, result, *words, status=1):
        self.assertEqual(result.returncode, status, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_usage(self):
        self.expect(slotstream("run", check=False), "--model", status=2)
        self.expect(slotstream("nonsense", check=False), status=2)
        self.expect(run("--prompt", "x", "--io", "magic", check=False), "--io", status=2)
        self.expect(run("--prompt", "x", "--isa", "magic", check=False), "magic", "scalar")
        self.assertIn("slotstream", slotstream("version").stdout)

    def test_bad_inputs(self):
        self.expect(slotstream("run", "--model", "/nowhere", "--prompt", "x", check=False),
                    "/nowhere")
        self.expect(run("--ids", "1,x,2", check=False), '"x"')
        self.expect(run("--ids", "99999999", check=False), "99999999")
        self.expect(run("--prompt-file", SCRATCH / "absent", check=False), "absent")
        self.expect(run("--prompt", "word " * 3000, "--max-context", 1000, check=False), "1000")
        self.expect(run("--raw", "--prompt", "", check=False), "empty")
        self.expect(slotstream("logits", "--model", MODEL, "--ids", "1", "--out",
                               "/nowhere/x.safetensors", check=False), "/nowhere")

    def test_inspect_names_what_is_missing(self):
        result = slotstream("inspect", MODEL)
        self.assertIn("qwen4_exp", result.stdout)
        broken = SCRATCH / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(MODEL, broken)
        shard = sorted(broken.glob("model-*.safetensors"))[-1]
        shard.unlink()
        result = slotstream("inspect", broken, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(shard.name, result.stdout)
        self.expect(slotstream("run", "--model", broken, "--prompt", "x", check=False), shard.name)

    def test_interrupt(self):
        file = SCRATCH / "long.txt"
        file.write_text("one two three four " * 5000)
        for wait in (0.3, 0.8):
            process = subprocess.Popen(
                [BINARY, "run", "--model", MODEL, "--prompt-file", file, "--threads", "1"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                # Whoever runs tests in the background may have them ignore it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            # Before the model is loaded the signal ends the process as usual.
            self.assertIn(process.returncode, (130, -signal.SIGINT))


class Packed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.packed = SCRATCH / "packed"
        shutil.rmtree(cls.packed, ignore_errors=True)
        slotstream("pack", MODEL, cls.packed)

    def copy(self):
        copy = SCRATCH / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.packed, copy)
        return copy

    def test_same_reply_and_verified(self):
        case = plain_cases(think=False)[0]
        result = slotstream("run", "--model", self.packed, "--greedy", "--prompt", prompt_of(case))
        self.assertEqual(result.stdout, answer_of(case) + "\n")
        self.assertIn("verified", slotstream("pack", "--verify", self.packed).stdout)
        slotstream("inspect", self.packed)

    def test_refuses_to_overwrite(self):
        result = slotstream("pack", MODEL, self.packed, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(str(self.packed), result.stderr)

    def test_a_flipped_byte_never_becomes_a_token(self):
        generator = random.Random(5)
        text = "What is the capital of France? " * 4
        expected = slotstream("run", "--model", self.packed, "--greedy", "--prompt", text).stdout
        for name in ("trunk.bin", "experts.bin", "ngram.bin"):
            reported = 0
            for _ in range(6):
                copy = self.copy()
                size = (copy / name).stat().st_size
                at = generator.randrange(size)
                with open(copy / name, "r+b") as file:
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 1 << generator.randrange(8)]))
                verify = slotstream("pack", "--verify", copy, check=False)
                self.assertEqual(verify.returncode, 1)
                self.assertIn(name, verify.stdout)
                result = slotstream("run", "--model", copy, "--greedy", "--prompt", text,
                                    check=False)
                if result.returncode == 0:  # a record that this prompt does not need
                    self.assertNotEqual(name, "trunk.bin")
                    self.assertEqual(result.stdout, expected)
                else:
                    self.assertIn(name, result.stderr)
                    self.assertTrue(expected.startswith(result.stdout.rstrip("\n")))
                    reported += 1
            if name != "ngram.bin":  # most rows of the table are never asked for
                self.assertGreater(reported, 0, name)

    def test_killed_and_resumed(self):
        generator = random.Random(9)
        target = SCRATCH / "killed"
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(f"{target}.packing", ignore_errors=True)
        kills = 0
        for _ in range(40):
            process = subprocess.Popen([BINARY, "pack", MODEL, target],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                process.communicate(timeout=generator.uniform(0.01, 0.25))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        if not target.exists():
            slotstream("pack", MODEL, target)
        self.assertGreater(kills, 0)
        for file in sorted(self.packed.iterdir()):
            self.assertEqual((target / file.name).read_bytes(), file.read_bytes(), file.name)
        self.assertEqual({f.name for f in target.iterdir()}, {f.name for f in self.packed.iterdir()})


if __name__ == "__main__":
    main()
