#!/usr/bin/env python3
"""The commands that measure: quality, synth, run --trace and replay.

    measuring_test.py SLOTSTREAM SCRATCH [unittest arguments]
"""

import json
import math
import random
import shutil
import struct
import subprocess
import time
import unittest

from miniature import GOLDENS, MODEL, ROOT
from program import BINARY, SCRATCH, main, plain_cases, prompt_of, run, slotstream

# Which of `replay`'s policies evicts in the engine.
ENGINE_POLICY = "slru"
# Every mechanism on, sizes of a toy; the vocabulary has room for a tokenizer of bytes.
TOY = {"model_type": "qwen4_exp", "text_config": {
    "vocab_size": 400, "hidden_size": 64, "num_hidden_layers": 6, "full_attention_interval": 3,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "partial_rotary_factor": 0.5, "rope_parameters": {"rope_theta": 10000},
    "indexer_n_heads": 2, "indexer_head_dim": 16, "indexer_budget": 64,
    "indexer_compress_ratio": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4,
    "num_experts": 64, "num_experts_per_tok": 4, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "hc_count": 2, "hc_lowrank": 32,
    "ple_layer_ids": [2], "ple_embed_dim": 64, "ngram_size": 3, "heads_per_ngram": 4,
    "ngram_vocab_size_base": 500, "make_ngram_vocab_size_divisible_by": 4,
    "split_ngram_parts": 1, "eos_token_id": 380}}


class Quality(unittest.TestCase):
    TEXT = ROOT / "tests" / "goldens" / "quality.txt"

    def measure(self, *arguments):
        result = slotstream("quality", "--model", MODEL, "--json", "--text", self.TEXT, *arguments)
        report = json.loads(result.stdout)
        return report, {mode["mode"]: mode for mode in report["modes"]}

    def test_the_text_is_the_goldens(self):
        self.assertEqual(self.TEXT.read_text(), "".join(
            case["prompt"] + case["output_text"] + "\n" for case in GOLDENS))

    def test_exact_does_not_differ_from_itself(self):
        # Other passes and a pool that must evict between the two runs over a window.
        report, modes = self.measure("--compute", "exact", "--pass", 100, "--slots", 40)
        self.assertEqual(list(modes), ["exact"])
        self.assertEqual([modes["exact"][key] for key in ("mean_kl", "p99_kl", "max_kl")], [0] * 3)
        self.assertEqual(modes["exact"]["top1_agreement"], 1)
        self.assertEqual(modes["exact"]["perplexity"], report["against"]["perplexity"])
        self.assertEqual(report["windows"], -(-report["tokens"] // 512))

    def test_modes_against_exact(self):
        report, modes = self.measure()
        self.assertEqual(set(modes), {"int8", "int15"})
        int8, int15 = modes["int8"], modes["int15"]
        # A few positions make the mean: see docs/NUMERICS.md.
        self.assertLess(int15["p99_kl"], 1e-6)
        self.assertLess(int15["mean_kl"], 1e-5)
        self.assertGreaterEqual(int15["top1_agreement"], 0.999)
        self.assertGreater(int8["mean_kl"], 10 * int15["mean_kl"])
        self.assertGreater(int8["p99_kl"], 1000 * int15["p99_kl"])
        self.assertLess(int8["mean_kl"], 0.05)
        self.assertGreater(int8["top1_agreement"], 0.95)
        for mode in modes.values():
            self.assertAlmostEqual(mode["perplexity"] / report["against"]["perplexity"], 1,
                                   delta=0.01)

    def test_perplexity_is_that_of_the_logits(self):
        # Independently, from `logits`: a window of the goldens' first case.
        ids = GOLDENS[0]["prompt_ids"] + GOLDENS[0]["output_ids"]
        text, out = SCRATCH / "window.txt", SCRATCH / "window.safetensors"
        text.write_text(GOLDENS[0]["prompt"] + GOLDENS[0]["output_text"])
        table = slotstream("quality", "--model", MODEL, "--text", text, "--against", "int8",
                           "--compute", "exact").stdout
        slotstream("logits", "--model", MODEL, "--compute", "exact",
                   "--ids", ",".join(map(str, ids)), "--out", out)
        data = out.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])["logits"]
        tokens, vocabulary = header["shape"]
        self.assertEqual(tokens, len(ids))
        values = memoryview(data)[8 + size + header["data_offsets"][0]:].cast("B")
        surprise = 0
        for t in range(tokens - 1):
            row = struct.unpack_from(f"<{vocabulary}f", values, t * vocabulary * 4)
            surprise += math.log(sum(math.exp(x) for x in row)) - row[ids[t + 1]]
        exact = next(line for line in table.splitlines() if line.startswith("exact"))
        self.assertAlmostEqual(float(exact.split()[-1]), math.exp(surprise / (tokens - 1)),
                               places=5)

    def test_bad_input(self):
        empty, one = SCRATCH / "empty.txt", SCRATCH / "one.txt"
        empty.write_text("")
        one.write_text("a")
        for flags, status, words in (
                (["--text", SCRATCH / "absent.txt"], 1, ["absent.txt"]),
                (["--text", empty], 1, ["empty.txt", "is empty"]),
                (["--text", one], 1, ["one.txt", "at least two"]),
                (["--text", self.TEXT, "--compute", "int9"], 1, ["int9", "int15"]),
                (["--text", self.TEXT, "--against", "int9"], 1, ["int9", "int15"]),
                (["--text", self.TEXT, "--context", 1], 2, ["--context"]),
                (["--text", self.TEXT, "--context", 4000000000], 1, ["4000000000"]),
                (["--text", self.TEXT, "--memory-gb", 0.03], 1, ["at least"])):
            result = slotstream("quality", "--model", MODEL, *flags, check=False)
            self.assertEqual(result.returncode, status, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertEqual(result.stdout, "")


class Synthetic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.geometry = SCRATCH / "toy.json"
        cls.geometry.write_text(json.dumps(TOY))

    def synth(self, name, *arguments, **keywords):
        target = SCRATCH / name
        shutil.rmtree(target, ignore_errors=True)
        return target, slotstream("synth", "--geometry", self.geometry, *arguments, target,
                                  **keywords)

    def test_folded_it_answers_and_verifies(self):
        target, result = self.synth("folded", "--fold", 16, "--layers", 5)
        self.assertIn("20 of 320 expert records", result.stdout)
        self.assertIn("verified", slotstream("pack", "--verify", target).stdout)
        self.assertIn("folded: 20 expert records", slotstream("inspect", target).stdout)
        stats = SCRATCH / "synthetic.json"
        reply = slotstream("run", "--model", target, "--prompt", "Hello", "--max-tokens", 40,
                           "--slots", 40, "--seed", 3, "--stats-json", stats)
        report = json.loads(stats.read_text())
        self.assertEqual(len(report["output_ids"]), 40)
        self.assertGreater(len(set(report["output_ids"])), 10)
        self.assertGreater(report["experts"]["misses"], 0)
        self.assertTrue(reply.stdout.strip())

    def test_with_another_checkpoints_tokenizer(self):
        target, result = self.synth("borrowed", "--tokenizer", MODEL, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("4096 ids, the geometry a vocabulary of 400", result.stderr)
        self.geometry.with_name("wide.json").write_text(json.dumps(
            {**TOY, "text_config": {**TOY["text_config"], "vocab_size": 5000}}))
        shutil.rmtree(target, ignore_errors=True)
        slotstream("synth", "--geometry", self.geometry.with_name("wide.json"), "--tokenizer",
                   MODEL, target)
        for name in ("tokenizer.json", "generation_config.json"):
            self.assertEqual((target / name).read_bytes(), (MODEL / name).read_bytes())
        slotstream("run", "--model", target, "--prompt", "Hello", "--max-tokens", 5)

    def test_refusals(self):
        for arguments, status, word in ((["--layers", 0], 2, "--layers"),
                                        (["--layers", 7], 1, "has 6"),
                                        (["--fold", 0], 2, "--fold"),
                                        (["--fold", 1000], 1, "fold of 1000"),
                                        (["--skew", -1], 2, "--skew"),
                                        (["--vision"], 1, "no vision tower"),
                                        (["--tokenizer", SCRATCH / "none"], 1, "none")):
            target, result = self.synth("refused", *arguments, check=False)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(word, result.stderr)
            self.assertFalse(target.exists())
        result = slotstream("synth", "--geometry", SCRATCH / "no.json", SCRATCH / "x", check=False)
        self.assertIn("no.json", result.stderr)
        target, _ = self.synth("there")
        result = slotstream("synth", "--geometry", self.geometry, target, check=False)
        self.assertIn("exists already", result.stderr)

    def test_killed_it_is_absent_or_complete(self):
        generator = random.Random(4)
        target, kills = SCRATCH / "killed_synth", 0
        shutil.rmtree(target, ignore_errors=True)
        for _ in range(15):
            process = subprocess.Popen([BINARY, "synth", "--geometry", self.geometry, target],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.communicate(timeout=generator.uniform(0.001, 0.03))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
            if target.exists():
                slotstream("pack", "--verify", target)
                shutil.rmtree(target)
        self.assertGreater(kills, 0)
        slotstream("synth", "--geometry", self.geometry, target)
        slotstream("pack", "--verify", target)


class Replay(unittest.TestCase):
    def record(self, name, *arguments):
        trace, stats = SCRATCH / f"{name}.trace", SCRATCH / f"{name}.json"
        run("--trace", trace, "--stats-json", stats, *arguments)
        return trace, json.loads(stats.read_text())

    def replay(self, *arguments):
        return json.loads(slotstream("replay", "--json", *arguments).stdout)["rows"]

    def test_the_engines_policy_gives_the_engines_counts(self):
        prompts = (prompt_of(plain_cases(think=False)[0]),  # through the pool
                   "Tell me a story about seven rivers. " * 12)  # sweeps, in several passes
        for index, prompt in enumerate(prompts):
            # With a slot for each of the 512 the engine also keeps what it guessed in vain.
            for slots in (8, 40, 100, 511):
                trace, stats = self.record(
                    "engine", "--prompt", prompt, "--slots", slots, "--pass", 40, "--seed", 3,
                    "--temperature", 1.5, "--max-tokens", 60)
                row = self.replay(trace, "--slots", slots)[0]
                replayed = row["policies"][ENGINE_POLICY]
                experts = stats["experts"]
                for count in ("hits", "misses", "swept"):
                    self.assertEqual(replayed["prompt"][count] + replayed["decode"][count],
                                     experts[count], f"{count}, {slots} slots")
                self.assertEqual(replayed["evictions"], experts["evictions"])
                self.assertEqual(experts["swept"] > 0, index == 1)
                top_k, layers = 4, 8
                self.assertEqual(sum(replayed["decode"].values()),
                                 (len(stats["output_ids"]) - 1) * top_k * layers)

    def test_other_pools_from_one_trace(self):
        trace, _ = self.record("one", "--prompt", "Tell me a story.", "--seed", 7, "--temperature",
                               1.5, "--max-tokens", 60)
        rows = self.replay(trace, "--slots", "40,8", "--slots-per-layer", "10,1000", "--by-layer")
        self.assertEqual([row["slots"] for row in rows], [40, 8, 80, 512])
        hits = [{name: policy["decode"]["hits"] for name, policy in row["policies"].items()}
                for row in rows]
        for of_row in hits:
            self.assertEqual(max(of_row.values()), of_row["optimum"])
        self.assertLess(hits[1]["optimum"], hits[0]["optimum"])
        layers = rows[0]["policies"]["lru"]["decode_by_layer"]
        self.assertEqual(sum(layer["hits"] for layer in layers), hits[0]["lru"])
        table = slotstream("replay", trace, trace, "--slots", 40).stdout
        self.assertIn("optimum", table)
        self.assertIn("40 (5.0)", table)

    def test_bad_traces(self):
        trace, _ = self.record("bad", "--prompt", "Hi", "--max-tokens", 5)
        cut = SCRATCH / "cut.trace"
        cut.write_bytes(trace.read_bytes()[:1000])
        result = slotstream("replay", cut, "--slots", 40)
        self.assertIn("cut short", result.stderr)
        for content, word in ((b"", "no expert trace"), (b"x" * 100, "no expert trace"),
                              (trace.read_bytes()[:20], "damaged"),
                              (trace.read_bytes()[:32] + b"\xff" * 50, "offset 32")):
            cut.write_bytes(content)
            result = slotstream("replay", cut, "--slots", 40, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(word, result.stderr)
            self.assertIn("cut.trace", result.stderr)
        self.assertEqual(slotstream("replay", trace, check=False).returncode, 2)
        self.assertEqual(slotstream("replay", trace, "--slots", 0, check=False).returncode, 2)
        result = run("--prompt", "Hi", "--trace", "/nowhere/x", check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere/x", result.stderr)

    def test_killed_its_trace_replays(self):
        trace, prompt = SCRATCH / "killed.trace", SCRATCH / "long.txt"
        trace.unlink(missing_ok=True)
        prompt.write_text("one two three four " * 5000)
        process = subprocess.Popen(
            [BINARY, "run", "--model", MODEL, "--prompt-file", prompt, "--threads", "1", "--trace",
             trace], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and (not trace.exists() or trace.stat().st_size < 100_000):
            time.sleep(0.01)
        process.kill()
        process.communicate()
        result = slotstream("replay", trace, "--slots", 40)
        self.assertIn("cut short", result.stderr)
        self.assertIn("Hit rates", result.stdout)


if __name__ == "__main__":
    main()
