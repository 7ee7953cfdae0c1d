#!/usr/bin/env python3
"""What operators rely on: deadlines, stopping, metrics, logs; and what sampling fields do.

    operations_test.py SLOTSTREAM SCRATCH [unittest arguments]
"""

import email.utils
import json
import re
import threading
import time
import unittest

from program import BINARY, main
from serving import GREEDY, Server, events, golden
from with_server import WithServer

FRANCE = "What is the capital of France?"
LONG = "one two three four " * 1500


def user(content):
    return [{"role": "user", "content": content}]


def chat(content, **more):
    return {"messages": user(content), **GREEDY, **more}


class Answers(WithServer):
    FLAGS = ("--max-context", 4096)

    def test_dates(self):
        for method, path, body in (("GET", "/health", None), ("GET", "/nonsense", None),
                                   ("HEAD", "/api/tags", None), ("POST", "/api/chat", "no JSON"),
                                   ("POST", "/v1/messages", {**chat("Hi"), "stream": True,
                                                             "max_tokens": 2})):
            _, headers, _ = self.server.ask(method, path, body)
            date = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
            self.assertLess(abs(time.time() - date), 10, headers["Date"])
            self.assertRegex(headers["Date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
        self.assertRegex(self.server.raw(b"nonsense\r\n\r\n").decode(), r"\r\nDate: \w{3}, ")

    def test_ollama_facts(self):
        tags = self.server.json("GET", "/api/tags")["models"][0]
        show = self.server.json("POST", "/api/show", {"name": "anything"})
        running = self.server.json("GET", "/api/ps")["models"][0]
        for details in (tags["details"], show["details"], running["details"]):
            self.assertEqual(details["quantization_level"], "4bit")
            self.assertEqual(details["family"], "qwen4_exp")
            self.assertRegex(details["parameter_size"], r"^\d+\.\d[KMB]$")
        count = show["model_info"]["general.parameter_count"]
        size = float(tags["details"]["parameter_size"][:-1])
        self.assertAlmostEqual(size, count / {"K": 1e3, "M": 1e6, "B": 1e9}[
            tags["details"]["parameter_size"][-1]], delta=0.06)
        # Four bits and a bit more for each.
        self.assertTrue(0.5 < tags["size"] / count < 1.5, (tags["size"], count))
        context = self.server.json("GET", "/v1/models")["data"][0]["context_length"]
        self.assertEqual(show["model_info"]["qwen4_exp.context_length"], context)
        self.assertEqual(running["context_length"], context)
        self.assertIn(f"num_ctx {context}", show["parameters"])
        self.assertEqual(set(show["capabilities"]) & {"completion", "tools", "thinking"},
                         {"completion", "tools", "thinking"})
        self.assertGreater(running["size"], 0)
        for keep_alive in (0, "5m", -1, "0s", 300.5, None):
            answer = self.server.json("POST", "/api/chat", {
                "messages": user(FRANCE), "stream": False, "keep_alive": keep_alive,
                "options": GREEDY})
            self.assertEqual(answer["message"]["content"], golden(FRANCE)[0])

    def test_prompts_stay_out_of_the_log(self):
        secret = "xylophone"
        for path, body in (
                ("/v1/chat/completions", chat(secret, max_tokens=2)),
                ("/v1/chat/completions", chat(secret, stop=5)),
                ("/v1/chat/completions", chat(secret + LONG)),
                ("/v1/chat/completions", {"messages": [{"role": secret, "content": secret}]}),
                ("/v1/messages", {"messages": user(secret), "max_tokens": 2, "stream": True}),
                ("/v1/responses", {"input": secret, "max_output_tokens": 2}),
                ("/api/generate", {"prompt": secret, "options": {"num_predict": 2}}),
                ("/v1/completions", {"prompt": secret, "max_tokens": 2, "stop": [secret]}),
                ("/tokenize", {"content": secret}), ("/api/chat", '{"' + secret)):
            _, headers, _ = self.server.ask("POST", path, body)
            request = headers["X-Request-Id"]
            end = time.monotonic() + 30
            while not any(request in line for line in self.server.log):
                self.assertLess(time.monotonic(), end, "not in the access log")
                time.sleep(0.02)
            (line,) = [line for line in self.server.log if request in line]
            self.assertIn(f"POST {path} ", line)
        self.assertNotIn(secret, "".join(self.server.log))

    def test_foreign_names_are_logged_once(self):
        for _ in range(3):
            answer = self.server.json("POST", "/v1/chat/completions",
                                      chat(FRANCE, model="claude-opus-9", max_tokens=1))
            self.assertEqual(answer["model"], "claude-opus-9")
        self.assertEqual("".join(self.server.log).count("claude-opus-9"), 1)


class Sampling(WithServer):
    def ask(self, **more):
        answer = self.server.json("POST", "/v1/completions", {
            "prompt": "Once upon a time", "max_tokens": 24, "logprobs": 0, **GREEDY, **more})
        return answer["choices"][0]["logprobs"]["tokens"], answer["choices"][0]["text"]

    def ids(self, text):
        return self.server.json("POST", "/tokenize", {"content": text})["tokens"]

    def first_token(self):
        tokens, _ = self.ask(max_tokens=1)
        (token,) = self.ids(tokens[0])
        return token, tokens[0]

    def test_biases_ban_and_force(self):
        token, text = self.first_token()
        banned, _ = self.ask(max_tokens=1, logit_bias={token: -100})
        self.assertNotEqual(banned[0], text)
        (wanted,) = self.ids(" x")[:1]
        forced, _ = self.ask(max_tokens=3, logit_bias={wanted: 100})
        self.assertEqual(len(set(forced)), 1)
        self.assertEqual(self.ids(forced[0]), [wanted])
        for wrong in ({"x": 1}, {"1": "x"}, {"1": 101}, {"1": -100.5}, {"-1": 1}, {"1.0": 1},
                      {str(1 << 40): 1}, {"999999999": 1}, [[1, 2]]):
            error = self.server.json("POST", "/v1/chat/completions",
                                     chat("Hi", logit_bias=wrong), status=400)["error"]
            self.assertEqual(error["param"], "logit_bias", wrong)

    def test_penalties_make_repeats_rarer(self):
        plain, _ = self.ask(max_tokens=60)
        self.assertLess(len(set(plain)), len(plain), "there is something to be rarer")
        for penalty in ({"frequency_penalty": 50}, {"presence_penalty": 200},
                        {"repetition_penalty": 1e6}, {"repeat_penalty": 1e6}):
            tokens, _ = self.ask(max_tokens=60, **penalty)
            self.assertLess(max(map(tokens.count, tokens)), max(map(plain.count, plain)), penalty)

    def test_repeat_penalty_sees_the_prompt(self):
        token, text = self.first_token()
        options = {"prompt": text + " Once upon a time", "max_tokens": 1,
                   "logit_bias": {token: 100}}
        self.assertEqual(self.ask(**options)[0], [text])
        self.assertNotEqual(self.ask(**options, repetition_penalty=1e6)[0], [text])
        self.assertNotEqual(self.ask(**options, repeat_penalty=1e6)[0], [text])
        self.assertEqual(self.ask(**options, repeat_penalty=1e6, repeat_last_n=1)[0], [text])

    def test_all_dialects_have_them(self):
        ban = {"logit_bias": {str(i): -100 for i in self.ids(golden(FRANCE)[0])}}
        answers = [
            self.server.json("POST", "/v1/chat/completions", chat(FRANCE, max_tokens=8, **ban))
            ["choices"][0]["message"]["content"],
            self.server.json("POST", "/v1/messages", chat(FRANCE, max_tokens=8, **ban))
            ["content"][0]["text"],
            self.server.json("POST", "/v1/responses", {
                "input": FRANCE, "max_output_tokens": 8, **GREEDY, **ban})
            ["output"][0]["content"][0]["text"],
            self.server.json("POST", "/api/chat", {
                "messages": user(FRANCE), "stream": False,
                "options": {**GREEDY, "num_predict": 8, **ban}})["message"]["content"]]
        self.assertEqual(len(set(answers)), 1, answers)
        self.assertNotEqual(answers[0], golden(FRANCE)[0])

    def test_probabilities_of_responses(self):
        body = {"input": FRANCE, **GREEDY, "include": ["message.output_text.logprobs"],
                "top_logprobs": 2}
        part = self.server.json("POST", "/v1/responses", body)["output"][0]["content"][0]
        self.assertEqual("".join(t["token"] for t in part["logprobs"]), part["text"])
        for token in part["logprobs"]:
            self.assertEqual(len(token["top_logprobs"]), 2)
            self.assertLessEqual(token["logprob"], 0)
            self.assertEqual(token["top_logprobs"][0]["token"], token["token"], "greedy")
        chat_tokens = self.server.json("POST", "/v1/chat/completions", chat(
            FRANCE, logprobs=True, top_logprobs=2))["choices"][0]["logprobs"]["content"]
        self.assertEqual(chat_tokens, part["logprobs"])
        _, _, text = self.server.ask("POST", "/v1/responses", {**body, "stream": True})
        data = [json.loads(event) for event in events(text)]
        deltas = [e for e in data if e["type"] == "response.output_text.delta"]
        self.assertEqual(sum((e["logprobs"] for e in deltas), []), part["logprobs"])
        (done,) = [e for e in data if e["type"] == "response.output_text.done"]
        self.assertEqual(done["logprobs"], part["logprobs"])
        final = data[-1]["response"]["output"][0]["content"][0]
        self.assertEqual(final["logprobs"], part["logprobs"])
        without = self.server.json("POST", "/v1/responses", {"input": FRANCE, **GREEDY})
        self.assertEqual(without["output"][0]["content"][0]["logprobs"], [])
        self.server.json("POST", "/v1/responses", {**body, "top_logprobs": 21}, status=400)


class Deadline(WithServer):
    # Minutes of scalar work against seconds of patience.
    FLAGS = ("--isa", "scalar", "--threads", 1, "--first-token-seconds", 2)

    def test_each_dialect_says_so(self):
        late = self.server.metric("requests_late_total")
        long = {"messages": user(LONG), "max_tokens": 1}
        error = self.server.json("POST", "/v1/chat/completions", long, status=504)["error"]
        self.assertEqual(error["code"], "first_token_deadline_exceeded")
        error = self.server.json("POST", "/v1/messages", long, status=504)
        self.assertEqual(error["error"]["type"], "timeout_error")
        self.assertIn("2 seconds", self.server.json("POST", "/api/chat", {**long, "stream": False},
                                                    status=504)["error"])
        _, headers, text = self.server.ask("POST", "/v1/responses", {"input": LONG})
        self.assertNotIn("Retry-After", headers)
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses"):
            _, _, text = self.server.ask("POST", path, {**long, "input": LONG, "stream": True})
            last = text.strip().splitlines()[-1].removeprefix("data: ")
            self.assertIn("2 seconds", json.dumps(json.loads(last)), path)
        # The engine is free for the next, and those who wait count their wait.
        end = time.monotonic() + 120
        while self.server.metric("queue_running") > 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual(self.server.metric("requests_late_total") - late, 8)
        self.assertEqual(self.server.metric("generations_failed_total"), 0)

    def test_waiting_counts(self):
        statuses = []
        asks = [threading.Thread(target=lambda: statuses.append(self.server.ask(
            "POST", "/v1/chat/completions", {"messages": user(LONG)})[0])) for _ in range(4)]
        begun = self.server.metric("generations_total")
        for ask in asks:
            ask.start()
        for ask in asks:
            ask.join()
        self.assertEqual(statuses, [504] * 4)
        # Those that waited long enough never began.
        self.assertLess(self.server.metric("generations_total") - begun, 4)


class Metrics(WithServer):
    def page(self):
        status, headers, text = self.server.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        return text

    def test_format(self):
        self.server.json("POST", "/v1/chat/completions", chat(FRANCE))
        text = self.page()
        self.assertTrue(text.endswith("\n"))
        kinds, helps, samples = {}, set(), {}
        for line in text.splitlines():
            if found := re.fullmatch(r"# HELP (\w+) (\S.*)", line):
                self.assertNotIn(found[1], helps)
                helps.add(found[1])
            elif found := re.fullmatch(r"# TYPE (\w+) (counter|gauge|summary)", line):
                self.assertIn(found[1], helps, "HELP comes first")
                kinds[found[1]] = found[2]
            else:
                found = re.fullmatch(r'(\w+)((?:\{\w+="[^"]*"\})?) (\S+)', line)
                self.assertTrue(found, line)
                self.assertNotIn((found[1], found[2]), samples)
                samples[found[1], found[2]] = float(found[3])
        self.assertEqual(helps, set(kinds))
        for name, kind in kinds.items():
            self.assertTrue(name.startswith("slotstream_"), name)
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            self.assertNotRegex(name, r"_(ms|millis|kb|mb|gb|minutes)(_|$)", "base units")
        for name, _ in samples:
            self.assertIn(re.sub(r"_(sum|count)$", "", name) if name not in kinds else name, kinds)

    def test_they_count(self):
        names = ("http_requests_total", "generations_finished_total", "prompt_tokens_total",
                 "reply_tokens_total", "prefill_seconds_total", "decode_seconds_total",
                 "first_token_seconds_count", "first_token_seconds_sum", "expert_hits_total",
                 "ngram_hits_total")
        self.server.json("POST", "/v1/chat/completions", chat(FRANCE))
        before = {name: self.server.metric(name) for name in names}
        answer = self.server.json("POST", "/v1/chat/completions", chat(FRANCE))
        after = {name: self.server.metric(name) for name in names}
        for name in names:
            self.assertGreater(after[name], before[name], name)
        self.assertEqual(after["prompt_tokens_total"] - before["prompt_tokens_total"],
                         answer["usage"]["prompt_tokens"])
        self.assertEqual(after["reply_tokens_total"] - before["reply_tokens_total"],
                         answer["usage"]["completion_tokens"])
        self.assertGreater(self.server.metric("prefill_tokens_per_second"), 0)
        self.assertGreater(self.server.metric("decode_tokens_per_second"), 0)
        for name in ("expert_hit_ratio", "ngram_hit_ratio"):
            self.assertTrue(0 < self.server.metric(name) <= 1, name)
        for name in ("expert_read_bytes_total", "expert_wait_seconds_total", "expert_slots",
                     "context_tokens", "memory_planned_bytes", "memory_budget_bytes"):
            self.assertGreater(self.server.metric(name), 0, name)
        self.assertEqual(self.server.metric("model_loaded"), 1)
        self.server.ask("GET", "/nowhere")
        self.assertIn('slotstream_http_responses_total{status="404"} 1\n', self.page())


class Stopping(unittest.TestCase):
    def test_at_any_time(self):
        """From the moment that the port is open, mostly while the model loads."""
        for pause in (0, 0, 0.01, 0.03, 0.06, 0.1, 0.3):
            server = Server(BINARY, wait=False)
            answers = []

            def ask(to=server, into=answers):
                try:
                    into.append(to.ask("POST", "/v1/messages", chat(FRANCE))[0])
                except OSError:
                    into.append(None)  # the port was closed before

            asker = threading.Thread(target=ask)
            asker.start()
            time.sleep(pause)
            self.assertEqual(server.stop(timeout=60), 0, server.log)
            asker.join()
            self.assertIn(answers[0], (200, 503, None))
            if "ready\n" not in server.log:
                self.assertIn("stopped while the model was loaded\n", server.log)

    def test_a_load_that_fails(self):
        server = Server(BINARY, wait=False, model="/nowhere")
        self.assertEqual(server.stop(), 1)
        self.assertIn("/nowhere", "".join(server.log))


if __name__ == "__main__":
    main()
