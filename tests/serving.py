"""A server under test, and the plainest of clients."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from miniature import GOLDENS, MODEL

# Seconds for what takes one: nothing is timed by it, and a sanitizer on a busy machine takes minutes.
PATIENCE = 600
# Resident memory is then mostly the sanitizer's.
SANITIZED = "SLOTSTREAM_SANITIZED" in os.environ
# Bytes, of a server that may take 1 GB.
LONGEST_BODY = 2 << 20
GREEDY = {"temperature": 0, "presence_penalty": 0}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}


def golden(question, think=False):
    """The miniature's greedy answer to a question without tools or a history."""
    for case in GOLDENS:
        if (case["messages"][-1]["content"] == question and len(case["messages"]) == 1
                and case["think"] == think and not case["tools"] and case["system"] is None):
            reasoning, _, answer = case["output_text"].rpartition("</think>")
            return answer.split("<|im_end|>")[0].lstrip("\n"), reasoning.strip()
    raise KeyError(question)


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


class Server:
    """Runs until the with block ends; `flags` go to `slotstream serve`."""

    def __init__(self, binary, *flags, wait=True, model=MODEL):
        self.process = subprocess.Popen(
            [binary, "serve", "--model", str(model), "--port", "0", "--memory-gb", "1",
             *map(str, flags)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.log = []
        self.listening, self.ready = threading.Event(), threading.Event()
        self.reader = threading.Thread(target=self.read_log)
        self.reader.start()
        self.listening.wait(PATIENCE)
        if wait and not self.ready.wait(PATIENCE):
            raise AssertionError(f"not ready: {self.log}")

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.match(r"listening on http://.*:(\d+)", line):
                self.port = int(found[1])
                self.listening.set()
            if line == "ready\n":
                self.ready.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, timeout=PATIENCE):
        """The exit status after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.kill(self.process.pid, signal.SIGKILL)
            raise
        self.reader.join()
        self.process.stderr.close()
        return status

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """(status, headers, body); a body that is no text or bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def json(self, method, path, body=None, headers=None, status=200):
        got, _, text = self.ask(method, path, body, headers)
        if got != status:
            raise AssertionError(f"{method} {path}: {got}, not {status}: {text}")
        return json.loads(text)

    def open(self, timeout=PATIENCE):
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, data, timeout=PATIENCE):
        """All that comes back for these bytes, until the server closes."""
        with self.open(timeout) as connection:
            connection.sendall(data)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
            return received

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2]
        return float(re.search(rf"^slotstream_{name} (\S+)$", text, re.M)[1])


def events(text):
    """The data of server-sent events."""
    return [line[len("data: "):] for line in text.splitlines() if line.startswith("data: ")]
