#!/usr/bin/env python3
"""seeds.py TARGET DIRECTORY: writes the inputs that a fuzzer begins with."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CALL = ("\1\2\3\4Hm.\n</think>\n\nI look.\n<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n"
        "<parameter=i>\n3\n</parameter>\n</function>\n</tool_call>")
HEADS = (
    "POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    "POST //v1/v1/messages/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n"
    "0\r\nX: y\r\n\r\nGET /a HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nOrigin: http://localhost:3\r\nAccess-Control-Request-Headers: a\r\n\r\n",
    "HEAD /v1/models/%41%zz HTTP/1.0\r\nConnection: keep-alive\r\nAuthorization: Bearer key\r\n\r\n",
    "POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Encoding: identity\r\n"
    "Content-Length: 3\r\nx-api-key: key\r\n\r\nabc")


def main():
    target, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    if target == "requests":
        source = (ROOT / "src" / "server" / "test_readers.h").read_text()
        seeds = re.findall(r'R"\((.*?)\)"', source, re.S)
    else:
        seeds = [CALL] if target == "replies" else HEADS
    for number, seed in enumerate(seeds, 1):
        (directory / f"seed{number}").write_bytes(seed.encode())


if __name__ == "__main__":
    main()
