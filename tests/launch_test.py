#!/usr/bin/env python3
"""launch, ps and stop: servers in the background, and the agents that are pointed at them.

    launch_test.py SLOTSTREAM SCRATCH [unittest arguments]

The agents are stand-ins that write down how they were started.
"""

import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from miniature import MODEL
from program import BINARY, SCRATCH, main

AGENT = """#!/bin/sh
env > "$AGENT_LOG.env"
for word in "$@"; do printf '%s\\n' "$word"; done > "$AGENT_LOG.arguments"
exit 7
"""
SETTINGS_OF_USERS = (".claude/settings.json", ".claude.json", ".codex/config.toml",
                     ".config/opencode/opencode.json")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class WithHome(unittest.TestCase):
    """A user with agents, settings and directories of their own."""

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH))
        self.port = free_port()
        (self.home / "bin").mkdir()
        (self.home / "run").mkdir(mode=0o700)
        for name in ("claude", "codex", "opencode"):
            agent = self.home / "bin" / name
            agent.write_text(AGENT)
            agent.chmod(0o755)
        for name in SETTINGS_OF_USERS:
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("the user's own")
        self.environment = {
            "PATH": f"{self.home}/bin:/usr/bin:/bin", "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home / "run"), "XDG_STATE_HOME": str(self.home / "state"),
            "AGENT_LOG": str(self.home / "agent")}

    def tearDown(self):
        for server in self.ps():
            self.slotstream("stop", "--port", server["port"])
        self.assertEqual(self.ps(), [])
        for name in SETTINGS_OF_USERS:
            self.assertEqual((self.home / name).read_text(), "the user's own", name)
        shutil.rmtree(self.home)

    def slotstream(self, *arguments, status=0, **more):
        result = subprocess.run([BINARY, *map(str, arguments)], env={**self.environment, **more},
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout if status == 0 else result.stderr

    def ps(self, **more):
        return json.loads(self.slotstream("ps", "--json", **more))

    def launch(self, agent, *arguments, status=7, **more):
        return self.slotstream("launch", agent, "--model", MODEL, "--memory-gb", 1, "--port",
                               self.port, *arguments, status=status, **more)

    def seen(self):
        """The environment and the arguments of the agent that ran last."""
        lines = (self.home / "agent.env").read_text().splitlines()
        environment = dict(line.split("=", 1) for line in lines if "=" in line)
        return environment, (self.home / "agent.arguments").read_text().splitlines()

    def serve(self, *flags, **more):
        """A server in the foreground, of this home; returns when it listens."""
        process = subprocess.Popen(
            [BINARY, "serve", "--model", MODEL, "--memory-gb", "1", "--port", str(self.port),
             *map(str, flags)], env={**self.environment, **more}, stderr=subprocess.PIPE, text=True)
        while process.stderr.readline() != "ready\n":
            self.assertIsNone(process.poll())
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process


class Launching(WithHome):
    def test_claude(self):
        self.launch("claude", "--", "-p", "two words", ANTHROPIC_API_KEY="mine",
                    CLAUDE_CODE_USE_BEDROCK="1", MAX_THINKING_TOKENS="5")
        environment, arguments = self.seen()
        url = f"http://127.0.0.1:{self.port}"
        self.assertEqual(environment["ANTHROPIC_BASE_URL"], url)
        self.assertTrue(environment["ANTHROPIC_AUTH_TOKEN"])
        self.assertNotIn("ANTHROPIC_API_KEY", environment)
        self.assertNotIn("CLAUDE_CODE_USE_BEDROCK", environment)
        self.assertEqual(environment["CLAUDE_CODE_ATTRIBUTION_HEADER"], "0")
        self.assertEqual(environment["MAX_THINKING_TOKENS"], "5", "the user's own wish")
        self.assertEqual(environment["API_FORCE_IDLE_TIMEOUT"], "0")
        (server,) = self.ps()
        self.assertEqual(environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"], str(server["context"]))
        self.assertEqual(arguments[0], "--settings")
        settings = json.loads(arguments[1])
        self.assertEqual(settings["env"]["ANTHROPIC_BASE_URL"], url)
        self.assertEqual(settings["env"]["ANTHROPIC_MODEL"], server["model"])
        self.assertNotIn("ANTHROPIC_AUTH_TOKEN", settings["env"])
        self.assertEqual(arguments[2:], ["-p", "two words"])
        # The server that was started serves the next agent too.
        self.launch("codex")
        self.assertEqual([server["pid"]], [s["pid"] for s in self.ps()])
        log = self.home / "state" / "slotstream" / f"serve-{self.port}.log"
        self.assertIn("ready", log.read_text())

    def test_codex(self):
        self.serve(SLOTSTREAM_API_KEY="sesame")
        self.launch("codex", "--", "exec", "hello", SLOTSTREAM_API_KEY="sesame")
        environment, arguments = self.seen()
        self.assertEqual(arguments[-2:], ["exec", "hello"])
        (server,) = self.ps(SLOTSTREAM_API_KEY="sesame")
        settings = [arguments[i + 1] for i in range(len(arguments)) if arguments[i] == "-c"]
        self.assertIn('model_provider="slotstream"', settings)
        self.assertIn(f'model="{server["model"]}"', settings)
        self.assertIn(f"model_context_window={server['context']}", settings)
        (provider,) = [s for s in settings if s.startswith("model_providers.slotstream=")]
        self.assertIn(f'base_url="http://127.0.0.1:{self.port}/v1"', provider)
        self.assertIn('wire_api="responses"', provider)
        self.assertIn('env_key="SLOTSTREAM_API_KEY"', provider)
        self.assertNotIn("sesame", provider)
        self.assertEqual(environment["SLOTSTREAM_API_KEY"], "sesame")
        self.assertIn("wants an API key", self.launch("codex", status=1))
        self.assertEqual(self.ps()[0]["state"], "locked")

    def test_opencode(self):
        self.launch("opencode", OPENCODE_CONFIG_CONTENT='{"theme": "dark", "model": "x/y"}')
        environment, arguments = self.seen()
        self.assertEqual(arguments, [])
        (server,) = self.ps()
        config = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
        self.assertEqual(config["theme"], "dark")
        self.assertEqual(config["model"], f"slotstream/{server['model']}")
        provider = config["provider"]["slotstream"]
        self.assertEqual(provider["options"]["baseURL"], f"http://127.0.0.1:{self.port}/v1")
        limit = provider["models"][server["model"]]["limit"]
        self.assertEqual(limit["context"], server["context"])
        self.assertLess(limit["output"], server["context"])

    def test_dry_run_does_nothing(self):
        self.ps()  # makes its directory
        before = sorted(self.home.rglob("*"))
        text = self.launch("claude", "--dry-run", "--", "-p", "it's", status=0)
        self.assertIn(f"export ANTHROPIC_BASE_URL=http://127.0.0.1:{self.port}\n", text)
        self.assertIn("unset ANTHROPIC_API_KEY\n", text)
        self.assertIn(f"serve --model {MODEL} --port {self.port} --memory-gb 1", text)
        self.assertEqual(self.ps(), [])
        self.assertEqual(sorted(self.home.rglob("*")), before)
        # What it prints is what a shell can run.
        commands = "\n".join(line for line in text.splitlines() if not line.endswith("2>&1 &"))
        subprocess.run(["sh", "-c", commands], env=self.environment, check=False, timeout=60)
        self.assertEqual(self.seen()[1][2:], ["-p", "it's"])
        secret = self.launch("claude", "--dry-run", status=0, SLOTSTREAM_API_KEY="sesame")
        self.assertNotIn("sesame", secret)

    def test_what_cannot_be_launched(self):
        (self.home / "bin" / "claude").unlink()
        self.assertIn("npm install -g @anthropic-ai/claude-code", self.launch("claude", status=1))
        self.assertEqual(self.ps(), [], "no server is started for an agent that is not there")
        self.assertIn("--model", self.slotstream("launch", "codex", "--port", self.port, status=1))
        self.slotstream("launch", "wizard", status=2)
        text = self.slotstream("launch", "codex", "--model", "/nowhere", "--port", self.port,
                               status=1)
        self.assertIn("did not start", text)
        self.assertIn("/nowhere", text)

    def test_a_port_of_another_program(self):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"models": []}')

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", self.port), Other) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            self.assertIn("another program", self.launch("claude", status=1))
            self.assertIn("something else", self.slotstream("stop", "--port", self.port, status=1))
            other.shutdown()

    def test_two_launches_at_once_share_one_server(self):
        launches = [threading.Thread(target=self.launch, args=("opencode",)) for _ in range(2)]
        for launch in launches:
            launch.start()
        for launch in launches:
            launch.join()
        self.assertEqual(len(self.ps()), 1)

    def test_the_server_outlives_the_agents_terminal(self):
        self.launch("codex")
        (server,) = self.ps()
        self.assertEqual(os.getsid(server["pid"]), server["pid"])


class Servers(WithHome):
    """ps and stop."""

    def test_ps_and_stop(self):
        self.assertIn("no server", self.slotstream("stop", status=1))
        process = self.serve()
        (server,) = self.ps()
        self.assertEqual((server["pid"], server["port"], server["state"]),
                         (process.pid, self.port, "ready"))
        self.assertEqual(server["directory"], str(MODEL))
        table = self.slotstream("ps")
        self.assertIn(f"127.0.0.1:{self.port}", table)
        self.assertIn(str(process.pid), table)
        self.assertIn("stopped", self.slotstream("stop"))
        self.assertEqual(process.wait(10), 0)
        self.assertEqual(list((self.home / "run" / "slotstream").glob("*.json")), [])

    def test_one_of_several(self):
        first = self.serve()
        first_port, self.port = self.port, free_port()
        second = self.serve()
        self.assertEqual(len(self.ps()), 2)
        self.assertIn("--port", self.slotstream("stop", status=1))
        self.assertIsNone(first.poll())
        self.slotstream("stop", "--port", first_port)
        self.assertEqual(first.wait(10), 0)
        self.assertIsNone(second.poll())
        self.assertEqual([s["pid"] for s in self.ps()], [second.pid])

    def test_killed_servers_and_pids_that_come_again(self):
        process = self.serve()
        (record,) = (self.home / "run" / "slotstream").glob("*.json")
        text = record.read_text()
        process.kill()
        process.wait()
        self.assertEqual(self.ps(), [])
        self.assertFalse(record.exists())
        # The pid of this test, which is no server; and of a boot that is over.
        facts = json.loads(text)
        for wrong in ({"pid": os.getpid()}, {"boot": "another"}):
            record.write_text(json.dumps({**facts, **wrong}))
            self.assertEqual(self.ps(), [])
            self.assertFalse(record.exists())
        record.write_text("not ours")
        self.assertEqual(self.ps(), [])
        self.assertTrue(record.exists())
        record.unlink()

    def test_a_directory_of_another_user_is_not_trusted(self):
        (self.home / "run" / "slotstream").mkdir(mode=0o777)
        (self.home / "run" / "slotstream").chmod(0o777)
        self.assertIn("only this user", self.slotstream("ps", status=1))
        shutil.rmtree(self.home / "run" / "slotstream")
        (self.home / "run" / "slotstream").symlink_to("/tmp")
        self.assertIn("only this user", self.slotstream("ps", status=1))
        (self.home / "run" / "slotstream").unlink()

    def test_without_a_runtime_directory(self):
        self.environment["XDG_RUNTIME_DIR"] = ""
        self.environment["TMPDIR"] = str(self.home)
        process = self.serve()
        self.assertEqual([s["pid"] for s in self.ps()], [process.pid])
        self.assertTrue((self.home / f"slotstream-{os.getuid()}").is_dir())

    def test_stop_waits_for_a_running_answer(self):
        process = self.serve("--grace-seconds", 60)
        body = json.dumps({"messages": [{"role": "user", "content": "Tell me a story."}],
                           "stream": True, "max_tokens": 30}).encode()
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            received = connection.recv(1000)
            stopper = threading.Thread(target=self.slotstream, args=("stop",))
            stopper.start()
            while chunk := connection.recv(65536):
                received += chunk
            stopper.join()
        self.assertIn(b"[DONE]", received)
        self.assertEqual(process.wait(10), 0)


if __name__ == "__main__":
    main()
