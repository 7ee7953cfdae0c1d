#!/usr/bin/env python3
"""Runs Claude Code, Codex and opencode, without a person, against a fresh server.

    agents.py SLOTSTREAM PREFIX [--record] [--only NAME]

PREFIX is where they are installed:
    npm install --prefix PREFIX @anthropic-ai/claude-code @openai/codex opencode-ai
Each asks one question. It must end with status 0, each of its generations must get 200, and it
must not ask more often than it does of a server that answers well. --record writes what they sent
to tests/recordings/, which recordings_test.py replays.
"""

import argparse
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

from recordings import RECORDINGS, compact
from serving import Server

# Their prompts are tens of kilobytes, and the miniature's vocabulary is small.
CONTEXT = 131072
GENERATING = ("/v1/messages", "/v1/responses", "/v1/chat/completions")
QUESTION = "Say hello."


class Proxy(http.server.ThreadingHTTPServer):
    """Hands all to the server and keeps what was asked and the status of the answer."""

    daemon_threads = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.seen = port, []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()),
                "body": body.decode(), "status": None}
        self.server.seen.append(seen)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=600)
        skipped = ("connection", "accept-encoding", "content-length", "host")
        connection.request(self.command, self.path, body or None, {
            k: v for k, v in self.headers.items() if k.lower() not in skipped})
        response = connection.getresponse()
        seen["status"] = response.status
        self.close_connection = True
        try:
            self.wfile.write(b"HTTP/1.1 %d %s\r\nConnection: close\r\n" % (
                response.status, response.reason.encode()))
            for name, value in response.getheaders():
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.wfile.write(f"{name}: {value}\r\n".encode())
            self.wfile.write(b"\r\n")
            while piece := response.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            pass  # it left, as some do at the end of a stream
        connection.close()

    do_GET = do_POST = do_HEAD = do_OPTIONS = do_DELETE = answer


def claude_code(url, home):
    # The context that a server has is not asked for; the flags keep to the one question.
    return (["claude", "-p", QUESTION, "--model", "claude-local"],
            {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "x",
             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CONFIG_DIR": home + "/claude"})


def codex(url, home):
    provider = f'{{name="local",base_url="{url}/v1",wire_api="responses"}}'
    return (["codex", "exec", "--skip-git-repo-check", "-c", f"model_providers.local={provider}",
             "-c", 'model_provider="local"', "-m", "local", QUESTION],
            {"CODEX_HOME": home + "/codex"})


def opencode(url, home):
    config = {"provider": {"local": {
        "npm": "@ai-sdk/openai-compatible", "name": "local", "options": {"baseURL": url + "/v1"},
        "models": {"local": {"limit": {"context": CONTEXT, "output": 8192}}}}},
        "model": "local/local", "small_model": "local/local", "autoupdate": False, "share": "disabled"}
    pathlib.Path(home, "opencode.json").write_text(json.dumps(config))
    return (["opencode", "run", QUESTION], {"OPENCODE_CONFIG": home + "/opencode.json"})


# With the most generations that one question needs: opencode asks for a title as well.
AGENTS = {"claude_code": (claude_code, 2), "codex": (codex, 1), "opencode": (opencode, 2)}


def run(name, binary, prefix):
    """(requests as the proxy saw them, complaints)."""
    prepare, most = AGENTS[name]
    complaints = []
    with tempfile.TemporaryDirectory() as home, Server(binary, "--max-context", CONTEXT) as server:
        proxy = Proxy(server.port)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        command, more = prepare(f"http://127.0.0.1:{proxy.server_port}", home)
        for folder in ("claude", "codex", "work"):
            os.mkdir(f"{home}/{folder}")
        keep = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
        bin_folder = pathlib.Path(prefix, "node_modules", ".bin").resolve()
        result = subprocess.run(
            [bin_folder / command[0], *command[1:]], cwd=home + "/work", stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=600,
            env={**keep, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, **more})
        proxy.shutdown()
        log = list(server.log)
    print(f"== {name}: exit status {result.returncode}")
    print("\n".join(f"   | {line[:150]}" for line in result.stdout.strip().splitlines()[-6:]))
    for line in log:
        if " req_" in line:
            print("   " + line.split(" ", 2)[2].strip()[:150])
    if result.returncode != 0:
        complaints.append(f"{name}: exit status {result.returncode}: {result.stderr[-2000:]}")
    asked = [r for r in proxy.seen if r["method"] == "POST" and r["path"].split("?")[0] in GENERATING]
    for request in asked:
        if request["status"] != 200:
            complaints.append(f"{name}: {request['path']} got {request['status']}")
    if not 1 <= len(asked) <= most:
        complaints.append(f"{name}: {len(asked)} generations, not 1 to {most}")
    return proxy.seen, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slotstream")
    parser.add_argument("prefix")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", choices=AGENTS)
    arguments = parser.parse_args()
    complaints = []
    for name in [arguments.only] if arguments.only else AGENTS:
        seen, found = run(name, os.path.abspath(arguments.slotstream), arguments.prefix)
        complaints += found
        if arguments.record:
            text = json.dumps([compact(request) for request in seen], indent=1, ensure_ascii=False)
            (RECORDINGS / f"{name}.json").write_text(text + "\n")
    print("\n".join(complaints) or "all is well")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
