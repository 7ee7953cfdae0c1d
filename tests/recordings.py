"""What agents send, written down briefly: tests/recordings/*.json."""

import json
import pathlib
import re

RECORDINGS = pathlib.Path(__file__).resolve().parent / "recordings"
# Longer texts say nothing to the server; their length does.
LONGEST = 80
# Instead of a long text: prompts of tens of kilobytes take a minute each.
MOST_WORDS = 30
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{24,}"
                 r"|\b(?:ses|msg|rs|fc|resp|call|toolu|prt)_[\w-]{8,}")
# Of the machine and of the library's build.
DROPPED = ("host", "content-length", "connection", "accept-encoding", "user-agent")


def brief(text):
    text = IDS.sub("ID", text)
    return text if len(text) <= LONGEST and "/" not in text else {"$text": len(text)}


def brief_json(value, name=""):
    if isinstance(value, dict):
        return {k: brief_json(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [brief_json(v, name) for v in value]
    if isinstance(value, str) and name not in ("type", "role", "name", "$schema", "$ref"):
        return brief(value)
    return value


def compact(request):
    """A request as it was seen -> as it is kept: no ids, no paths, fillers for long texts."""
    headers = {k: IDS.sub("ID", v)[:LONGEST] for k, v in request["headers"].items()
               if k.lower() not in DROPPED}
    return {"method": request["method"], "path": request["path"], "status": request["status"],
            "headers": headers,
            "body": brief_json(json.loads(request["body"])) if request["body"] else None}


def expand(value):
    """A kept body -> one to send, with words where the texts were, though fewer."""
    if isinstance(value, dict):
        if set(value) == {"$text"}:
            return ("word " * MOST_WORDS)[:value["$text"]]
        return {k: expand(v) for k, v in value.items()}
    return [expand(v) for v in value] if isinstance(value, list) else value


def turns(name):
    """Requests of whole sessions, expanded, from tests/recordings/NAME_turns.json. There a part of
    a body that many requests have is {"$shared": its place in the list `shared`}."""
    document = json.loads((RECORDINGS / f"{name}_turns.json").read_text())
    for request in document["requests"]:
        body = {key: document["shared"][value["$shared"]]
                if isinstance(value, dict) and "$shared" in value else value
                for key, value in request["body"].items()}
        yield {**request, "body": expand(body)}
