#!/usr/bin/env python3
"""The program as users run it: flags, texts, exit codes, files, signals.

    program_test.py SLOTSTREAM SCRATCH [unittest arguments]

Only the standard library is needed. Expected replies come from the miniature's goldens, so that
another miniature needs no change here.
"""

import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "miniature"
GOLDENS = json.loads((ROOT / "tests" / "goldens" / "miniature_greedy.json").read_text())
BINARY = SCRATCH = None
# Below this the two best logits of a step may change places in another implementation.
CLEAR_MARGIN = 0.01
MEGABYTE = 1_000_000
# Which of `replay`'s policies evicts in the engine.
ENGINE_POLICY = "slru"


def plain_cases(think):
    """One user message, nothing else, and no step that nearly ties."""
    return [case for case in GOLDENS
            if case["think"] == think and not case["tools"] and case["system"] is None
            and len(case["messages"]) == 1 and case["min_margin"] >= CLEAR_MARGIN]


def prompt_of(case):
    return case["messages"][0]["content"]


def answer_of(case):
    text = case["output_text"].split("<|im_end|>")[0]
    return text.split("</think>")[-1].lstrip("\n")


def slotstream(*arguments, stdin="", check=True, timeout=120):
    result = subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True,
                            text=True, timeout=timeout)
    if check and result.returncode != 0:
        raise AssertionError(f"exit status {result.returncode}: {result.stderr}")
    return result


def run(*arguments, **keywords):
    return slotstream("run", "--model", MODEL, *arguments, **keywords)


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
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            # Before the model is loaded the signal ends the process as usual.
            self.assertIn(process.returncode, (130, -signal.SIGINT))


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
            for slots in (8, 40, 100, 512):
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
    BINARY = os.path.abspath(sys.argv[1])
    SCRATCH = pathlib.Path(sys.argv[2])
    SCRATCH.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
