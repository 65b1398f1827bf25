"""Owns what a server of the shared suite of transports says, whatever it is reached by; run, it says it on stdio.

It must not import anything but the standard library: it is run by a bare interpreter. A piece of an answer is (bytes of
one message, the size that they are written in, 0 = at once).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Pieces = list[tuple[bytes, int]]
GARBAGE = b"this is no JSON"
#: Characters of one to four bytes.
TEXT = "a\u00e9\u6f22\U0001f642"


class Gone(Exception):
    """The server is to be gone at once."""


def dumped(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


class Script:
    """One server's memory."""

    def __init__(self) -> None:
        self.cancelled: list[int] = []

    def answers(self, message: dict[str, Any]) -> Pieces:
        """What is said to one message. Raises Gone."""
        method, params, mid = message.get("method"), message.get("params") or {}, message.get("id")
        if method == "notifications/cancelled":
            self.cancelled.append(params["requestId"])
        if mid is None or method in (None, "silent"):
            return []
        chunk = params.get("chunk", 0)
        if method == "gone":
            raise Gone
        pieces: Pieces = []
        if method == "count":
            for i in range(params["n"]):
                pieces.append((dumped({"jsonrpc": "2.0", "method": "notifications/message", "params": {"i": i}}), 0))
        if method == "garbage":
            pieces.append((GARBAGE, 0))
        return [*pieces, (dumped({"jsonrpc": "2.0", "id": mid, "result": self.result(method, params)}), chunk)]

    def result(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "big":
                return {"text": TEXT * (params["size"] // len(TEXT.encode()))}
            case "length":
                return {"length": len(params["text"])}
            case "heard":
                return {"cancelled": self.cancelled}
            case _:
                return {"said": params}


def cut(data: bytes, size: int) -> list[bytes]:
    """The same bytes in pieces that do not care for characters."""
    return [data[start : start + size] for start in range(0, len(data), size)] if size else [data]


def main() -> None:
    script = Script()
    for line in sys.stdin.buffer:
        try:
            pieces = script.answers(json.loads(line))
        except Gone:
            os._exit(3)
        for data, size in pieces:
            for part in cut(data + b"\n", size):
                write_all(part)


def write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
