#!/usr/bin/env python3
"""litellm against the real server, through each of the providers that people point at one.

    litellm_test.py SLOTSTREAM SCRATCH [unittest arguments]
"""

import gc
import json
import os
import time

# Else it fetches a list of prices at the start.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

from program import BINARY, main
from serving import WEATHER, Server, golden
from with_server import WithServer

CONTEXT = 4096
FRANCE, ADD, OSLO = ("What is the capital of France?", "What is 23 + 48?",
                     "What is the weather in Oslo?")
TOO_LONG = "one two three four " * 2000
OSLO_RESULT = '{"temperature": -3, "sky": "snowy"}'
OSLO_ANSWER = "In Oslo it is snowy and -3 degrees."


def user(content):
    return [{"role": "user", "content": content}]


class Provider:
    """What all providers must do; `PREFIX` chooses one."""

    PREFIX, MODEL, BASE, EXTRA = "", "local", "", {}
    THINKING = {"reasoning_effort": "medium"}
    # What the server refuses, in litellm's words.
    WRONG = {"max_tokens": -5}
    FLAGS = ("--max-context", CONTEXT)

    def ask(self, messages, **more):
        return litellm.completion(
            model=f"{self.PREFIX}/{self.MODEL}", api_base=self.server.url + self.BASE,
            api_key="x", messages=messages, num_retries=0, max_retries=0,
            **{"temperature": 0, **self.EXTRA, **more})

    def streamed(self, messages, **more):
        """The whole message that litellm itself makes of a stream's pieces."""
        chunks = list(self.ask(messages, stream=True, **more))
        return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message

    def test_plain_and_second_turn(self):
        answer = self.ask(user("My name is Ana."))
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        again = self.ask(user("My name is Ana.") + [answer.choices[0].message.model_dump()]
                         + user("What is my name?"))
        self.assertEqual(again.choices[0].message.content, "Your name is Ana.")
        self.assertGreater(again.usage.prompt_tokens, answer.usage.prompt_tokens)

    def test_streamed(self):
        self.assertEqual(self.streamed(user(FRANCE)).content, golden(FRANCE)[0])

    def test_thinking(self):
        answer, reasoning = golden(ADD, think=True)
        for message in (self.ask(user(ADD), **self.THINKING).choices[0].message,
                        self.streamed(user(ADD), **self.THINKING)):
            self.assertEqual(message.content, answer)
            self.assertEqual(message.reasoning_content.strip(), reasoning)

    def test_tools(self):
        for message in (self.ask(user(OSLO), tools=[WEATHER]).choices[0].message,
                        self.streamed(user(OSLO), tools=[WEATHER])):
            call = message.tool_calls[0]
            self.assertEqual((call.function.name, json.loads(call.function.arguments)),
                             ("get_weather", {"city": "Oslo"}))
        again = self.ask(user(OSLO) + [message.model_dump(exclude_none=True), {
            "role": "tool", "tool_call_id": call.id, "name": "get_weather",
            "content": OSLO_RESULT}], tools=[WEATHER])
        self.assertEqual(again.choices[0].message.content, OSLO_ANSWER)

    def test_parallel_calls(self):
        calls = [{"id": f"call_{city}", "type": "function", "function": {
            "name": "get_weather", "arguments": json.dumps({"city": city})}}
            for city in ("Rome", "Cairo")]
        results = [{"role": "tool", "tool_call_id": f"call_{city}", "content": text}
                   for city, text in (("Rome", '{"temperature": 21, "sky": "sunny"}'),
                                      ("Cairo", '{"temperature": 33, "sky": "windy"}'))]
        messages = user("What is the weather in Rome and in Cairo?") + [
            {"role": "assistant", "content": "", "tool_calls": calls}]
        answers = [self.ask(messages + order, tools=[WEATHER]).choices[0].message.content
                   for order in (results, results[::-1])]
        self.assertTrue(answers[0])
        self.assertEqual(*answers)

    def test_cancel(self):
        # Slow enough that the story is still being told when it is left.
        self.server = Server(BINARY, "--isa", "scalar", "--compute", "exact", "--threads", "1")
        self.addCleanup(self.server.stop)
        stream = self.ask(user("Tell me a story about a fox."), stream=True, max_tokens=4000,
                          temperature=1.5)
        next(iter(stream))
        # litellm has no way to leave a stream but to drop it.
        stream.completion_stream = None
        del stream
        gc.collect()
        end = time.monotonic() + 60
        while self.server.metric("generations_cancelled_total") == 0:
            self.assertLess(time.monotonic(), end, "never cancelled")
            time.sleep(0.05)

    def test_errors(self):
        with self.assertRaises(litellm.exceptions.BadRequestError) as caught:
            self.ask(user(TOO_LONG))
        self.assertIn(str(CONTEXT), str(caught.exception))
        with self.assertRaises(litellm.exceptions.BadRequestError):
            self.ask([{"role": "user", "content": "x"}], **self.WRONG)


class OpenAi(Provider, WithServer):
    PREFIX, BASE, EXTRA = "openai", "/v1", {"presence_penalty": 0}

    def test_context_is_told(self):
        with self.assertRaises(litellm.exceptions.ContextWindowExceededError):
            self.ask(user(TOO_LONG))


class Anthropic(Provider, WithServer):
    # By the name it knows that there may be thinking.
    PREFIX, MODEL = "anthropic", "claude-sonnet-4-5"
    EXTRA = {"extra_body": {"presence_penalty": 0}}
    THINKING = {"thinking": {"type": "enabled", "budget_tokens": 8000}}

    def test_context_is_told(self):
        with self.assertRaises(litellm.exceptions.ContextWindowExceededError):
            self.ask(user(TOO_LONG))


class OllamaChat(Provider, WithServer):
    PREFIX = "ollama_chat"
    EXTRA = {"presence_penalty": 0, "allowed_openai_params": ["presence_penalty"]}
    WRONG = {"think": "wild"}


class Ollama(WithServer):
    """The old way: a prompt in litellm's own words to /api/generate."""

    FLAGS = ("--max-context", CONTEXT)

    def ask(self, content, **more):
        return litellm.completion(model="ollama/local", api_base=self.server.url, temperature=0,
                                  messages=user(content), num_retries=0, max_retries=0, **more)

    def test_plain_and_streamed(self):
        answer = self.ask(FRANCE)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        text = "".join(c.choices[0].delta.content or "" for c in self.ask(FRANCE, stream=True))
        self.assertTrue(text)
        self.assertEqual(text, answer.choices[0].message.content)

    def test_errors(self):
        with self.assertRaises(litellm.exceptions.BadRequestError):
            self.ask(TOO_LONG)


if __name__ == "__main__":
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    main()
