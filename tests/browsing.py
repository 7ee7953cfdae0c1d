"""A browser under test, and a server in front of the real one that can misbehave."""

import http.client
import http.server
import json
import pathlib
import shutil
import socket
import struct
import threading
import time

import axe_core_python
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync")
AXE = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()


def open_browser(scratch):
    """Chromium with a profile of its own. The paths keep Selenium from looking for downloads."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={scratch}/profile"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                           {"behavior": "allow", "downloadPath": f"{scratch}/downloads"})
    return driver


def wait_for(condition, what, seconds=20):
    """What `condition` returns, once that is true."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.03)
    return result


def accessibility_problems(driver):
    """What axe-core finds: [rule and the elements at fault]."""
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    result = driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)")
    return [f"{found['id']}: {node['target']} {node['failureSummary']}"
            for found in result["violations"] for node in found["nodes"]]


class Front:
    """Passes requests on to the real server, except where a test put something else.

    `answers` maps paths to functions that answer with a handler; `asked` holds what was posted.
    """

    def __init__(self, server):
        self.server, self.answers, self.asked = server, {}, []
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else None
                if body:
                    front.asked.append((self.path, json.loads(body)))
                try:
                    front.answers.get(self.path, front.forward)(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    front.left = True

            do_GET = do_POST = answer

        self.left = False
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def forward(self, handler, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        headers = {name: value for name, value in handler.headers.items() if name != "Host"}
        connection.request(handler.command, handler.path, body, headers)
        response = connection.getresponse()
        handler.send_response(response.status)
        for name, value in response.getheaders():
            if name not in ("Transfer-Encoding", "Connection"):
                handler.send_header(name, value)
        handler.end_headers()
        try:
            while piece := response.read1(65536):
                handler.wfile.write(piece)
        finally:
            connection.close()


def refuse(status, text):
    """Answers with an error in Ollama's form."""
    def answer(handler, _):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        handler.wfile.write(json.dumps({"error": text}).encode())
    return answer


def reset(handler, _):
    """No answer: the connection breaks."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def stream(text, thinking="", pause=0.0, broken=False):
    """Answers /api/chat with this reply, in pieces of a few letters; `broken` never says its end."""
    def answer(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-ndjson")
        handler.end_headers()

        def line(value):
            handler.wfile.write(json.dumps(value).encode() + b"\n")
            handler.wfile.flush()

        for field, whole in (("thinking", thinking), ("content", text)):
            for start in range(0, len(whole), 5):
                line({"message": {"role": "assistant", "content": "",
                                  field: whole[start:start + 5]}, "done": False})
                time.sleep(pause)
        if not broken:
            line({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop",
                  "eval_count": 11, "eval_duration": 5_000_000_000, "prompt_eval_count": 20,
                  "prompt_eval_duration": 2_000_000_000})
    return answer
