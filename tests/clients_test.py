#!/usr/bin/env python3
"""Real client libraries against the real server.

    clients_test.py SLOTSTREAM SCRATCH [unittest arguments]
"""

import json
import time

import anthropic
import ollama
import openai

from program import main
from serving import GREEDY, WEATHER, golden
from with_server import WithServer

FRANCE, ADD, OSLO = ("What is the capital of France?", "What is 23 + 48?",
                     "What is the weather in Oslo?")
MODEL = "claude-opus-4-8"  # any name is served
CONTEXT = 4096
TOO_LONG = "one two three four " * 2000
STORY = "Tell me a story about a fox."
OSLO_RESULT = '{"temperature": -3, "sky": "snowy"}'
OSLO_ANSWER = "In Oslo it is snowy and -3 degrees."


def user(content):
    return [{"role": "user", "content": content}]


class Client(WithServer):
    FLAGS = ("--max-context", CONTEXT)

    def assert_cancelled(self, leave):
        """`leave` begins an endless answer and leaves in its midst."""
        before = self.server.metric("generations_cancelled_total")
        leave()
        end = time.monotonic() + 60
        while self.server.metric("generations_cancelled_total") == before:
            self.assertLess(time.monotonic(), end, "never cancelled")
            time.sleep(0.05)


class OpenAiChat(Client):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="x", max_retries=0)

    def tearDown(self):
        self.client.close()

    def create(self, messages, **more):
        return self.client.chat.completions.create(model=MODEL, messages=messages,
                                                   **{**GREEDY, **more})

    def test_plain_and_second_turn(self):
        answer = self.create(user("My name is Ana."))
        self.assertEqual((answer.model, answer.choices[0].finish_reason), (MODEL, "stop"))
        messages = user("My name is Ana.") + [answer.choices[0].message.model_dump()]
        again = self.create(messages + user("What is my name?"))
        self.assertEqual(again.choices[0].message.content, "Your name is Ana.")
        self.assertGreater(again.usage.prompt_tokens, answer.usage.prompt_tokens)
        self.assertEqual(again.usage.total_tokens,
                         again.usage.prompt_tokens + again.usage.completion_tokens)

    def test_streamed(self):
        chunks = list(self.create(user(FRANCE), stream=True,
                                  stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, golden(FRANCE)[0])
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage, self.create(user(FRANCE)).usage)
        self.assertTrue(all(c.usage is None for c in self.create(user(FRANCE), stream=True)))

    def test_thinking(self):
        answer, reasoning = golden(ADD, think=True)
        message = self.create(user(ADD), reasoning_effort="medium").choices[0].message
        self.assertEqual(message.content, answer)
        self.assertEqual(message.reasoning_content.strip(), reasoning)
        chunks = list(self.create(user(ADD), reasoning_effort="medium", stream=True))
        streamed = "".join(getattr(c.choices[0].delta, "reasoning_content", None) or ""
                           for c in chunks)
        self.assertEqual(streamed, message.reasoning_content)

    def test_tools(self):
        answer = self.create(user(OSLO), tools=[WEATHER]).choices[0]
        call = answer.message.tool_calls[0]
        self.assertEqual((answer.finish_reason, answer.message.content), ("tool_calls", None))
        self.assertEqual((call.function.name, json.loads(call.function.arguments)),
                         ("get_weather", {"city": "Oslo"}))
        messages = user(OSLO) + [answer.message.model_dump(exclude_none=True), {
            "role": "tool", "tool_call_id": call.id, "content": OSLO_RESULT}]
        self.assertEqual(self.create(messages, tools=[WEATHER]).choices[0].message.content,
                         OSLO_ANSWER)

    def test_streamed_tools(self):
        with self.client.chat.completions.stream(
                model=MODEL, messages=user(OSLO), tools=[WEATHER], **GREEDY) as stream:
            pieces = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
            final = stream.get_final_completion().choices[0]
        self.assertGreater(len(pieces), 1)
        self.assertEqual(final.finish_reason, "tool_calls")
        self.assertEqual(json.loads(final.message.tool_calls[0].function.arguments),
                         {"city": "Oslo"})

    def test_parallel_calls_answered_in_another_order(self):
        calls = [{"id": f"call_{city}", "type": "function", "function": {
            "name": "get_weather", "arguments": json.dumps({"city": city})}}
            for city in ("Rome", "Cairo")]
        results = [{"role": "tool", "tool_call_id": "call_Cairo",
                    "content": '{"temperature": 33, "sky": "windy"}'},
                   {"role": "tool", "tool_call_id": "call_Rome",
                    "content": '{"temperature": 21, "sky": "sunny"}'}]
        head = user("What is the weather in Rome and in Cairo?") + [
            {"role": "assistant", "content": None, "tool_calls": calls}]
        answers = [self.create(head + order, tools=[WEATHER]).choices[0].message.content
                   for order in (results, results[::-1])]
        self.assertEqual(*answers)

    def test_tool_choice(self):
        named = {"type": "function", "function": {"name": "get_weather"}}
        for choice in ("required", named):
            answer = self.create(user("Hello!"), tools=[WEATHER], tool_choice=choice, max_tokens=60)
            self.assertEqual(answer.choices[0].message.tool_calls[0].function.name, "get_weather")
        answer = self.create(user(OSLO), tools=[WEATHER], tool_choice="none", max_tokens=40)
        self.assertIsNone(answer.choices[0].message.tool_calls)
        with self.assertRaises(openai.BadRequestError):
            self.create(user(OSLO), tools=[WEATHER],
                        tool_choice={"type": "function", "function": {"name": "absent"}})

    def test_log_probabilities(self):
        answer = self.create(user(FRANCE), logprobs=True, top_logprobs=3).choices[0]
        tokens = answer.logprobs.content
        self.assertEqual("".join(t.token for t in tokens), answer.message.content)
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual(token.top_logprobs[0].token, token.token)  # greedy
        chunks = self.create(user(FRANCE), logprobs=True, top_logprobs=3, stream=True)
        streamed = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
        self.assertEqual([t.logprob for t in streamed], [t.logprob for t in tokens])

    def test_stop_length_and_seed(self):
        words = golden(FRANCE)[0].split(" ")
        answer = self.create(user(FRANCE), stop=[words[2]]).choices[0]
        self.assertEqual((answer.message.content.strip(), answer.finish_reason),
                         (" ".join(words[:2]), "stop"))
        answer = self.create(user(FRANCE), max_completion_tokens=2)
        self.assertEqual((answer.choices[0].finish_reason, answer.usage.completion_tokens),
                         ("length", 2))
        wild = {"temperature": 1.5, "max_tokens": 12, "seed": 5}
        self.assertEqual(*(self.create(user(STORY), **wild).choices[0].message.content
                           for _ in range(2)))
        different = {self.create(user(STORY), **{**wild, "seed": i}).choices[0].message.content
                     for i in range(4)}
        self.assertGreater(len(different), 1)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(user(TOO_LONG))
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertIn(f"maximum context length is {CONTEXT} tokens", str(caught.exception))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(user("x"), n=2)
        self.assertEqual(caught.exception.param, "n")
        # A limit beyond the room is no error.
        self.assertEqual(self.create(user(FRANCE), max_tokens=128_000).choices[0].finish_reason,
                         "stop")

    def test_cancel(self):
        def leave():
            stream = self.create(user(STORY), stream=True, temperature=1.5, max_tokens=4000)
            next(iter(stream))
            stream.close()
        self.assert_cancelled(leave)

    def test_models_and_completions(self):
        model = self.client.models.list().data[0]
        self.assertEqual(model.context_length, CONTEXT)
        self.assertEqual(self.client.models.retrieve(model.id).id, model.id)
        plain = self.client.completions.create(model=MODEL, prompt="Once upon", max_tokens=6,
                                               logprobs=1, **GREEDY)
        self.assertEqual("".join(plain.choices[0].logprobs.tokens), plain.choices[0].text)
        chunks = self.client.completions.create(model=MODEL, prompt="Once upon", max_tokens=6,
                                                stream=True, **GREEDY)
        self.assertEqual("".join(c.choices[0].text for c in chunks), plain.choices[0].text)
        with self.assertRaises(openai.BadRequestError):
            self.client.embeddings.create(model=MODEL, input="x")


class OpenAiResponses(Client):
    TOOL = {"type": "function", "strict": False, **WEATHER["function"]}

    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="x", max_retries=0)

    def tearDown(self):
        self.client.close()

    def create(self, input_, **more):
        return self.client.responses.create(model=MODEL, input=input_, temperature=0,
                                            extra_body={"presence_penalty": 0}, **more)

    def test_plain_and_items(self):
        answer = self.create(FRANCE)
        self.assertEqual((answer.status, answer.output_text), ("completed", golden(FRANCE)[0]))
        again = self.create(user("My name is Ana.") + [
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "Nice to meet you, Ana!"}]}] +
            user("What is my name?"))
        self.assertEqual(again.output_text, "Your name is Ana.")
        self.assertEqual(self.create("").status, "completed")
        cut = self.create(FRANCE, max_output_tokens=2)
        self.assertEqual((cut.status, cut.incomplete_details.reason),
                         ("incomplete", "max_output_tokens"))

    def test_streamed(self):
        with self.client.responses.stream(model=MODEL, input=ADD, temperature=0,
                                          reasoning={"effort": "medium"},
                                          extra_body={"presence_penalty": 0}) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        answer, reasoning = golden(ADD, think=True)
        self.assertEqual(final.output_text, answer)
        self.assertEqual(final.output[0].content[0].text.strip(), reasoning)
        self.assertGreater(final.usage.output_tokens_details.reasoning_tokens, 0)
        self.assertEqual([k for k in kinds if not k.endswith("delta")], [
            "response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added", "response.reasoning_text.done",
            "response.content_part.done", "response.output_item.done",
            "response.output_item.added", "response.content_part.added",
            "response.output_text.done", "response.content_part.done",
            "response.output_item.done", "response.completed"])

    def test_tools(self):
        namespace = {"type": "namespace", "name": "weather_v1", "tools": [self.TOOL]}
        for tool, name_space in ((self.TOOL, None), (namespace, "weather_v1")):
            for stream in (False, True):
                answer = self.create(OSLO, tools=[tool, {"type": "web_search"}], stream=stream)
                if stream:
                    answer = [e for e in answer if e.type == "response.completed"][0].response
                call = answer.output[0]
                self.assertEqual((call.type, call.name, json.loads(call.arguments)),
                                 ("function_call", "get_weather", {"city": "Oslo"}))
                self.assertEqual(getattr(call, "namespace", None), name_space)
        items = user(OSLO) + [call.model_dump(exclude_none=True), {
            "type": "function_call_output", "call_id": call.call_id, "output": OSLO_RESULT}]
        self.assertIn("Oslo", self.create(items, tools=[namespace]).output_text)

    def test_custom_tools(self):
        tool = {"type": "custom", "name": "apply_patch", "description": "Apply a patch"}
        answer = self.create("Hello!", tools=[tool], tool_choice={
            "type": "custom", "name": "apply_patch"}, max_output_tokens=80, stream=True)
        added = [e.item for e in answer if e.type == "response.output_item.added"]
        self.assertEqual((added[0].type, added[0].name), ("custom_tool_call", "apply_patch"))

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(TOO_LONG, stream=True)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError):
            self.create("x", previous_response_id="resp_1")
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve("resp_1")


class Anthropic(Client):
    TOOL = {"name": "get_weather", "description": "Get the weather in a city",
            "input_schema": WEATHER["function"]["parameters"]}
    THINK = {"type": "enabled", "budget_tokens": 8000}

    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.server.url, api_key="x", max_retries=0)

    def tearDown(self):
        self.client.close()

    def create(self, messages, max_tokens=200, **more):
        return self.client.messages.create(model=MODEL, messages=messages, max_tokens=max_tokens,
                                           extra_body=GREEDY, **more)

    def test_plain_and_second_turn(self):
        answer = self.create(user("My name is Ana."))
        self.assertEqual((answer.model, answer.stop_reason), (MODEL, "end_turn"))
        again = self.create(user("My name is Ana.") + [
            {"role": "assistant", "content": answer.content}] + user([
                {"type": "text", "text": "What is my name?",
                 "cache_control": {"type": "ephemeral"}}]))
        self.assertEqual(again.content[0].text, "Your name is Ana.")
        counted = self.client.messages.count_tokens(model=MODEL, messages=user("My name is Ana."))
        self.assertEqual(counted.input_tokens, answer.usage.input_tokens)

    def test_streamed(self):
        with self.client.messages.stream(model=MODEL, messages=user(FRANCE), max_tokens=100,
                                         extra_body=GREEDY) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, golden(FRANCE)[0])
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.usage.output_tokens, self.create(user(FRANCE)).usage.output_tokens)

    def test_thinking(self):
        answer, reasoning = golden(ADD, think=True)
        plain = self.create(user(ADD), thinking=self.THINK).content
        with self.client.messages.stream(model=MODEL, messages=user(ADD), max_tokens=200,
                                         thinking=self.THINK, extra_body=GREEDY) as stream:
            streamed = stream.get_final_message().content
        for content in (plain, streamed):
            self.assertEqual([b.type for b in content], ["thinking", "text"])
            self.assertEqual((content[0].thinking.strip(), content[1].text), (reasoning, answer))
        self.assertTrue(plain[0].signature)
        self.assertEqual(plain[0].signature, streamed[0].signature)

    def test_tools(self):
        with self.client.messages.stream(model=MODEL, messages=user(OSLO), max_tokens=100,
                                         tools=[self.TOOL], extra_body=GREEDY) as stream:
            answer = stream.get_final_message()
        self.assertEqual(answer.stop_reason, "tool_use")
        plain = self.create(user(OSLO), tools=[self.TOOL])
        self.assertEqual([b.input for b in plain.content], [b.input for b in answer.content])
        call = answer.content[0]
        self.assertEqual((call.type, call.name, call.input),
                         ("tool_use", "get_weather", {"city": "Oslo"}))
        again = self.create(user(OSLO) + [{"role": "assistant", "content": answer.content}] + user(
            [{"type": "tool_result", "tool_use_id": call.id, "content": OSLO_RESULT}]),
            tools=[self.TOOL])
        self.assertEqual(again.content[0].text, OSLO_ANSWER)

    def test_tool_choice(self):
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            answer = self.create(user("Hello!"), tools=[self.TOOL], tool_choice=choice)
            self.assertEqual(answer.content[0].name, "get_weather")
        search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
        self.assertEqual(self.create(user(FRANCE), tools=[search]).stop_reason, "end_turn")

    def test_stop_sequences(self):
        word = golden(FRANCE)[0].split(" ")[2]
        answer = self.create(user(FRANCE), stop_sequences=[word])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", word))
        self.assertEqual(self.create(user(FRANCE), max_tokens=2).stop_reason, "max_tokens")

    def test_what_agents_send(self):
        plain = self.create(user(FRANCE), system="Be brief.")
        billed = self.create(
            user(FRANCE), system=[
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; x=y;"},
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            metadata={"user_id": "{}"})
        # The same prompt, so that it is read from the cache but for a token.
        self.assertEqual((billed.usage.input_tokens, billed.usage.cache_read_input_tokens),
                         (1, plain.usage.input_tokens - 1))
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                               "data": "iVBORw0KGgo="}}
        late = user([picture, {"type": "text", "text": OSLO}]) + [
            {"role": "system", "content": "A reminder."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather",
                 "input": {"city": "Oslo"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
                                          "is_error": True, "content": [picture]}]}]
        self.assertIn(self.create(late, tools=[self.TOOL], max_tokens=5).stop_reason,
                      ("max_tokens", "end_turn", "tool_use"))

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(user(TOO_LONG))
        self.assertRegex(str(caught.exception), rf"prompt is too long: \d+ tokens > {CONTEXT}")
        with self.assertRaises(anthropic.BadRequestError):
            self.create([{"role": "wizard", "content": "x"}])
        with self.assertRaises(anthropic.BadRequestError):
            self.create(user("x"), max_tokens=0)

    def test_cancel(self):
        def leave():
            with self.client.messages.stream(
                    model=MODEL, messages=user(STORY), max_tokens=4000,
                    extra_body={"temperature": 1.5}) as stream:
                next(stream.text_stream)
        self.assert_cancelled(leave)


class Ollama(Client):
    OPTIONS = GREEDY

    def setUp(self):
        self.client = ollama.Client(self.server.url)

    def chat(self, messages, **more):
        return self.client.chat(MODEL, messages, **{"options": self.OPTIONS, **more})

    def test_plain_and_second_turn(self):
        answer = self.chat(user("My name is Ana."))
        self.assertEqual((answer.model, answer.done_reason), (MODEL, "stop"))
        again = self.chat(user("My name is Ana.") + [answer.message] + user("What is my name?"))
        self.assertEqual(again.message.content, "Your name is Ana.")
        for count in (again.prompt_eval_count, again.eval_count, again.eval_duration,
                      again.prompt_eval_duration, again.total_duration):
            self.assertGreater(count, 0)

    def test_streamed(self):
        parts = list(self.chat(user(FRANCE), stream=True))
        self.assertEqual("".join(p.message.content for p in parts), golden(FRANCE)[0])
        self.assertEqual([p.done for p in parts], [False] * (len(parts) - 1) + [True])

    def test_thinking(self):
        answer, reasoning = golden(ADD, think=True)
        plain = self.chat(user(ADD), think="medium").message
        self.assertEqual((plain.content, plain.thinking.strip()), (answer, reasoning))
        parts = list(self.chat(user(ADD), think="medium", stream=True))
        self.assertEqual("".join(p.message.thinking or "" for p in parts), plain.thinking)
        self.assertIsNone(self.chat(user(ADD), think=False).message.thinking)

    def test_tools(self):
        for stream in (False, True):
            answer = self.chat(user(OSLO), tools=[WEATHER], stream=stream)
            calls = [c for part in (answer if stream else [answer])
                     for c in part.message.tool_calls or []]
            self.assertEqual([(c.function.name, c.function.arguments) for c in calls],
                             [("get_weather", {"city": "Oslo"})])
        again = self.chat(user(OSLO) + [
            {"role": "assistant", "tool_calls": [calls[0].model_dump()]},
            {"role": "tool", "tool_name": "get_weather", "content": OSLO_RESULT}], tools=[WEATHER])
        self.assertEqual(again.message.content, OSLO_ANSWER)

    def test_generate(self):
        case_prompt = ("<|im_start|>user\n" + FRANCE + "<|im_end|>\n<|im_start|>assistant\n<think>"
                       "\n\n</think>\n\n")
        raw = self.client.generate(MODEL, case_prompt, raw=True, options=self.OPTIONS)
        self.assertEqual(raw.response, golden(FRANCE)[0])
        plain = self.client.generate(MODEL, FRANCE, options={**self.OPTIONS, "num_ctx": 2048,
                                                             "repeat_penalty": 1.1})
        self.assertEqual(plain.response, golden(FRANCE)[0])
        parts = list(self.client.generate(MODEL, ADD, think="medium", stream=True,
                                          options=self.OPTIONS))
        self.assertEqual("".join(p.response for p in parts), golden(ADD, think=True)[0])
        filled = self.client.generate(MODEL, "Once", suffix="the end.", options={
            **self.OPTIONS, "num_predict": 5})
        self.assertIn(filled.eval_count, range(1, 6))

    def test_log_probabilities(self):
        answer = self.chat(user(FRANCE), logprobs=True, top_logprobs=2)
        self.assertEqual("".join(t.token for t in answer.logprobs), answer.message.content)

    def test_models(self):
        name = self.client.list().models[0].model
        self.assertEqual(self.client.ps().models[0].model, name)
        shown = self.client.show(name)
        self.assertEqual(shown.modelinfo["qwen4_exp.context_length"], CONTEXT)
        self.assertLessEqual({"completion", "tools", "thinking"}, set(shown.capabilities))
        self.assertEqual(self.client.generate(name, "").done_reason, "load")
        self.assertEqual(self.client.chat(name, [], keep_alive=0).done_reason, "unload")

    def test_errors(self):
        with self.assertRaises(ollama.ResponseError) as caught:
            self.chat(user(TOO_LONG))
        self.assertEqual(caught.exception.status_code, 400)
        self.assertIn(str(CONTEXT), caught.exception.error)
        with self.assertRaises(ollama.ResponseError):
            self.client.embed(MODEL, "x")
        with self.assertRaises(ollama.ResponseError):
            self.chat(user("x"), think="wild")

    def test_cancel(self):
        def leave():
            stream = self.chat(user(STORY), stream=True,
                               options={"temperature": 1.5, "num_predict": 4000})
            next(stream)
            stream.close()
        self.assert_cancelled(leave)


if __name__ == "__main__":
    main()
