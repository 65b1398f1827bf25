"""Owns a scriptable MCP server on stdin and stdout: `python -I stdio_server.py SCRIPT`, SCRIPT is JSON or a file of it.

It must not know who tests what: every odd behaviour is an action of the script. Standard library only.

Script keys (all optional):
  name, version      what serverInfo says
  era                `legacy` (default), `modern`, `both`, or `locked`: the first message decides
  protocol           the legacy version it answers whatever was asked; default: the asked one
  capabilities       replaces the announced capabilities
  instructions       as announced
  tools              list of tool names or tool objects; an object may hold `actions` that answer its calls
  paging             `{"size": n, "cursor": "plain" | "empty" | "repeat" | "endless"}`
  result_type        what modern results carry; null leaves it out
  before             actions before the first line is read
  on                 {method: actions, or a list of action lists, one per occurrence, the last one repeated}
  after              actions once `notifications/initialized` came or a discover was answered
  eof                `exit` (default), `ignore`, or seconds to go on before exiting
  term               `exit` (default) or `ignore`
  grandchildren      {"count", "setsid", "ignore_term", "hold"}: hold = they keep stdout open
  starts             overrides by start, the last one repeated; `counter` names the file that counts starts
  log                file that gets every received line, and `#start PID`, `#argv JSON`, `#child PID`, `#eof`, `#term`

Actions (one key says which; the others are its options). $ID in a written text is the request's id as JSON:
  write TEXT, write64 BASE64          raw bytes; `chunk` bytes a write, `pause` seconds between writes
  big SIZE                            a text result of SIZE characters; `chunk` and `pause` as above
  text T | answer RESULT | error {..} the answer of this request
  reply                               answers with the last `ask` reply as JSON text
  request                             answers with the received message as JSON text
  default                             the answer this server gives by itself
  ask METHOD                          a request to the client (`params`, `id`), waits for its answer
  notify METHOD                       a notification (`params`)
  progress N                          a progress notification for this request's token, if it has one
  tools LIST                          replaces the list; `quiet` leaves out the notification
  stderr TEXT, stderr64 BASE64        `times` repeats it
  pause SECONDS, wait FILE (until it exists), touch FILE
  flood TEXT (for ever, at full speed), endless TOTAL (bytes without newline; 0 = for ever)
  lock ERA (for `locked`), env NAMES (answers with these variables as JSON text; null = not set)
  close_stdout, close_stdin, hang, exit CODE, kill SIGNAL, grandchild {..as above..}
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
SCHEMA: dict[str, Any] = {"type": "object"}
KNOWN_TOOLS: dict[str, dict[str, Any]] = {
    "echo": {
        "description": "Returns its text.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    },
    "do": {"description": "Runs the given actions.", "inputSchema": SCHEMA},
    "look": {"description": "Runs the given actions.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
}
STUBBORN = "import signal,sys,time\nif sys.argv[1]=='1': signal.signal(signal.SIGTERM,signal.SIG_IGN)\ntime.sleep(600)"


class Server:
    """One process: reads lines, answers each by actions or by itself."""

    def __init__(self, script: dict[str, Any], marker: str) -> None:
        self.script = script
        self.marker = marker
        self.out = threading.Lock()
        self.era: str | None = None
        self.ready = False
        self.tools = [self.tool(t) for t in script.get("tools", ["echo", "do", "look"])]
        self.seen: dict[str, int] = {}
        self.listens: list[Any] = []
        self.asked: dict[str, tuple[threading.Event, list[Any]]] = {}
        self.next_ask = 0
        log = script.get("log")
        self.log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else None

    # -- life

    def run(self) -> None:
        self.note(f"#start {os.getpid()}")
        self.note(f"#argv {json.dumps(sys.argv[2:])}")
        ignore_term = self.script.get("term") == "ignore"

        def on_term(_signal: int, _frame: object) -> None:
            self.note("#term")
            if not ignore_term:
                os._exit(143)

        signal.signal(signal.SIGTERM, on_term)
        if "grandchildren" in self.script:
            self.grandchildren(self.script["grandchildren"])
        self.actions(self.script.get("before", []), None)
        stdin = os.fdopen(0, "rb", closefd=False)
        for line in stdin:
            self.note(line.rstrip(b"\n"))
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    self.message(message)
        self.note("#eof")
        eof = self.script.get("eof", "exit")
        if eof == "ignore":
            while True:
                time.sleep(600)
        if eof != "exit":
            time.sleep(eof)
        os._exit(0)

    def note(self, line: bytes | str) -> None:
        if self.log_fd is not None:
            os.write(self.log_fd, (line.encode() if isinstance(line, str) else line) + b"\n")

    def grandchildren(self, how: dict[str, Any]) -> None:
        for _ in range(how.get("count", 1)):
            child = subprocess.Popen(
                [sys.executable, "-I", "-c", STUBBORN, "1" if how.get("ignore_term", True) else "0", self.marker],
                stdin=subprocess.DEVNULL,
                stdout=None if how.get("hold", True) else subprocess.DEVNULL,
                stderr=None if how.get("hold", True) else subprocess.DEVNULL,
                env={},
                start_new_session=how.get("setsid", True),
            )
            self.note(f"#child {child.pid}")

    # -- wire

    def write(self, data: bytes, chunk: int = 0, pause: float = 0) -> None:
        step = chunk or len(data) or 1
        with self.out:
            for at in range(0, len(data), step):
                part = memoryview(data)[at : at + step]
                while part:
                    part = part[os.write(1, part) :]
                if pause:
                    time.sleep(pause)

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def result(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        if is_modern(request):
            kind = self.script.get("result_type", "complete")
            if kind is not None:
                result = {"resultType": kind, **result}
            result = {**result, "_meta": {META + "serverInfo": self.info(), **result.get("_meta", {})}}
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def error(self, request: dict[str, Any], code: int, message: str, data: Any = None) -> None:
        body = {"code": code, "message": message, **({"data": data} if data is not None else {})}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": body})

    # -- messages

    def message(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            waiting = self.asked.get(str(message.get("id")))
            if waiting is not None:
                waiting[1].append(message)
                waiting[0].set()
            return
        count = self.seen[method] = self.seen.get(method, 0) + 1
        chosen = self.script.get("on", {}).get(method)
        if chosen is None and method == "tools/call":
            params = message.get("params", {})
            tool = next((t for t in self.tools if t["name"] == params.get("name")), {})
            chosen = tool.get("actions")
            if params.get("name") in ("do", "look") and chosen is None:
                chosen = params.get("arguments", {}).get("actions", [])
        if chosen is None:
            self.default(message)
            return
        if chosen and isinstance(chosen[0], list):
            chosen = chosen[min(count, len(chosen)) - 1]
        if method == "tools/call":
            threading.Thread(target=self.actions, args=(chosen, message), daemon=True).start()
        else:
            self.actions(chosen, message)

    def default(self, message: dict[str, Any]) -> None:
        """What an orderly server of this era does."""
        if "id" not in message:
            self.notified(message)
        elif not self.refused(message):
            self.serve(message)

    def notified(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        if method == "notifications/initialized":
            self.became_ready(message)
        elif method == "notifications/cancelled" and params.get("requestId") in self.listens:
            self.listens.remove(params["requestId"])

    def became_ready(self, message: dict[str, Any]) -> None:
        if not self.ready:
            self.ready = True
            self.actions(self.script.get("after", []), message)

    def refused(self, message: dict[str, Any]) -> bool:
        """Answers a request of the wrong era as servers of that kind do; says whether it did."""
        method, modern, era = message["method"], is_modern(message), self.script.get("era", "legacy")
        requested = {"supported": [MODERN], "requested": (message.get("params") or {}).get("protocolVersion")}
        if era == "locked":
            self.era = self.era or ("modern" if modern else "legacy")
            if method == "initialize" and self.era == "modern":
                self.error(message, -32022, "Unsupported protocol version", requested)
            elif modern and self.era == "legacy":
                self.error(message, -32600, "Invalid request")
            else:
                return False
        elif era == "legacy" and method == "server/discover":
            self.error(message, -32601, "Method not found")
        elif era == "modern" and method == "initialize":
            self.error(message, -32022, "Unsupported protocol version", requested)
        elif era == "modern" and not modern:
            self.error(message, -32602, "Missing _meta")
        else:
            return False
        return True

    def serve(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        cached = {"ttlMs": 0, "cacheScope": "public"} if is_modern(message) else {}
        if method == "initialize":
            version = {"protocolVersion": self.script.get("protocol", params.get("protocolVersion"))}
            self.result(message, {**version, **self.introduction(), "serverInfo": self.info()})
        elif method == "server/discover":
            self.result(message, {"supportedVersions": [MODERN], **self.introduction(), **cached})
            self.became_ready(message)
        elif method == "ping":
            self.result(message, {})
        elif method == "tools/list":
            self.result(message, {**self.page(params.get("cursor")), **cached})
        elif method == "tools/call":
            self.call(message, params)
        elif method == "subscriptions/listen":
            self.listens.append(message["id"])
            wanted = {k: v for k, v in params.get("notifications", {}).items() if k == "toolsListChanged"}
            meta = {META + "subscriptionId": message["id"]}
            self.notify("notifications/subscriptions/acknowledged", {"notifications": wanted, "_meta": meta})
        else:
            self.error(message, -32601, f"Method not found: {method}")

    def call(self, message: dict[str, Any], params: dict[str, Any]) -> None:
        name = params.get("name")
        if not any(t["name"] == name for t in self.tools):
            return self.error(message, -32602, f"Unknown tool: {name}")
        text = str((params.get("arguments") or {}).get("text", "")) if name == "echo" else f"called {name}"
        return self.result(message, {"content": [{"type": "text", "text": text}]})

    def info(self) -> dict[str, Any]:
        return {"name": self.script.get("name", "fake"), "version": self.script.get("version", "1")}

    def introduction(self) -> dict[str, Any]:
        said = {"instructions": self.script["instructions"]} if "instructions" in self.script else {}
        return {"capabilities": self.script.get("capabilities", {"tools": {"listChanged": True}}), **said}

    @staticmethod
    def tool(tool: str | dict[str, Any]) -> dict[str, Any]:
        if isinstance(tool, str):
            return {"name": tool, **KNOWN_TOOLS.get(tool, {"inputSchema": SCHEMA})}
        return {"inputSchema": SCHEMA, **tool} if tool.get("inputSchema", 1) is not None else tool

    def page(self, cursor: str | None) -> dict[str, Any]:
        tools = [{k: v for k, v in t.items() if k != "actions"} for t in self.tools]
        paging = self.script.get("paging")
        if not paging:
            return {"tools": tools}
        size, kind = paging.get("size", 1), paging.get("cursor", "plain")
        if kind == "empty":
            return {"tools": tools[size:]} if cursor == "" else {"tools": tools[:size], "nextCursor": ""}
        if kind == "repeat":
            return {"tools": tools[:size], "nextCursor": "again"}
        start = int(cursor or 0)
        if kind == "endless":
            return {"tools": [{"name": f"t{start}", "inputSchema": SCHEMA}], "nextCursor": str(start + 1)}
        end = start + size
        return {"tools": tools[start:end], **({"nextCursor": str(end)} if end < len(tools) else {})}

    # -- actions

    def actions(self, actions: list[dict[str, Any]], request: dict[str, Any] | None) -> None:
        replies: list[Any] = []
        with contextlib.suppress(BrokenPipeError):
            for action in actions:
                self.act(action, request or {}, replies)

    def act(self, action: dict[str, Any], request: dict[str, Any], replies: list[Any]) -> None:
        a = action
        how = {"chunk": a.get("chunk", 0), "pause": a.get("pause", 0)}
        request_id = json.dumps(request.get("id")).encode()
        if "write" in a:
            self.write(a["write"].encode("utf-8", "surrogatepass").replace(b"$ID", request_id), **how)
        elif "write64" in a:
            self.write(base64.b64decode(a["write64"]).replace(b"$ID", request_id), **how)
        elif "big" in a:
            head = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":"' % request_id
            tail = b'"}],"resultType":"complete"}}\n' if is_modern(request) else b'"}]}}\n'
            self.write(head + b"x" * a["big"] + tail, **how)
        elif "text" in a:
            self.result(request, {"content": [{"type": "text", "text": a["text"]}]})
        elif "answer" in a:
            self.result(request, a["answer"])
        elif "error" in a:
            self.send({"jsonrpc": "2.0", "id": request["id"], "error": a["error"]})
        elif "reply" in a:
            self.result(request, {"content": [{"type": "text", "text": json.dumps(replies[-1])}]})
        elif "request" in a:
            self.result(request, {"content": [{"type": "text", "text": json.dumps(request)}]})
        elif "default" in a:
            self.default(request)
        elif "ask" in a:
            replies.append(self.ask(a))
        elif "notify" in a:
            self.notify(a["notify"], a.get("params"))
        elif "progress" in a:
            token = request.get("params", {}).get("_meta", {}).get("progressToken")
            if token is not None:
                self.notify("notifications/progress", {"progressToken": token, "progress": a["progress"]})
        elif "tools" in a:
            self.tools = [self.tool(t) for t in a["tools"]]
            if not a.get("quiet"):
                self.list_changed()
        elif "stderr" in a or "stderr64" in a:
            text = a["stderr"].encode() if "stderr" in a else base64.b64decode(a["stderr64"])
            block = memoryview(text * a.get("times", 1))
            while block:
                block = block[os.write(2, block) :]
        elif "touch" in a:
            Path(a["touch"]).touch()
        elif "wait" in a:
            while not os.path.exists(a["wait"]):
                time.sleep(0.005)
        elif "flood" in a:
            block = memoryview(a["flood"].encode() * (65536 // len(a["flood"])))
            while True:
                self.write(bytes(block))
        elif "endless" in a:
            self.endless(a["endless"])
        elif "lock" in a:
            self.era = a["lock"]
        elif "env" in a:
            found = json.dumps({name: os.environ.get(name) for name in a["env"]})
            self.result(request, {"content": [{"type": "text", "text": found}]})
        elif "close_stdout" in a:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
        elif "close_stdin" in a:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        elif "hang" in a:
            while True:
                time.sleep(600)
        elif "grandchild" in a:
            self.grandchildren(a["grandchild"])
        elif "exit" in a:
            os._exit(a["exit"])
        elif "kill" in a:
            os.kill(os.getpid(), a["kill"])
            time.sleep(600)
        elif "pause" in a:
            time.sleep(a["pause"])
        else:
            die(f"unknown action {action}")

    def ask(self, action: dict[str, Any]) -> Any:
        self.next_ask += 1
        ask_id = action.get("id", f"s{self.next_ask}")
        arrived, answers = self.asked[str(ask_id)] = threading.Event(), []
        message = {"jsonrpc": "2.0", "id": ask_id, "method": action["ask"]}
        if "params" in action:
            message["params"] = action["params"]
        self.send(message)
        arrived.wait()
        return answers[0]

    def list_changed(self) -> None:
        if not self.listens:
            self.notify("notifications/tools/list_changed")
        for listen in self.listens:
            self.notify("notifications/tools/list_changed", {"_meta": {META + "subscriptionId": listen}})

    def endless(self, total: int) -> None:
        block, written = b"A" * 65536, 0
        with self.out:
            while not total or written < total:
                written += os.write(1, block)


def is_modern(message: dict[str, Any]) -> bool:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and META + "protocolVersion" in meta


def die(why: str) -> NoReturn:
    os.write(2, f"fake server: {why}\n".encode())
    os._exit(70)


def main() -> None:
    argument = sys.argv[1] if len(sys.argv) > 1 else "{}"
    script: dict[str, Any] = json.loads(argument if argument.startswith("{") else Path(argument).read_text("utf-8"))
    if "starts" in script:
        counter = Path(script["counter"])
        with counter.open("ab") as file:
            file.write(b".")
        starts = script["starts"]
        script = {**script, **starts[min(counter.stat().st_size, len(starts)) - 1]}
    Server(script, argument).run()


if __name__ == "__main__":
    main()
