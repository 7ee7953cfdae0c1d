"""Conversations for the tests of the prefix cache, and what replies and the server tell of it."""

import random
import shutil

from program import SCRATCH
from serving import GREEDY

WORDS = "one two three four five six seven eight nine ten fox owl river stone".split()


def words(count, seed):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(count))


def chat(messages, **more):
    return {"messages": messages, "max_tokens": 12, **GREEDY, **more}


def user(text):
    return {"role": "user", "content": text}


def directory(name):
    path = SCRATCH / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def disk_flags(path, *more):
    return ["--prefix-cache-dir", path, "--prefix-cache-min-tokens", 64, *more]


def answer_of(reply):
    return reply["choices"][0]["message"]


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def total(reply):
    return reply["usage"]["prompt_tokens"]


def reached(reply):
    """Tokens that a state holds after this reply: all but the last, which was not read."""
    return total(reply) + reply["usage"]["completion_tokens"] - 1


def prefix_status(server):
    return server.json("GET", "/slotstream/status")["prefix_cache"]
