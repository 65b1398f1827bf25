"""The control API as a Python object, against the real server and against broken ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcphub import client as client_module
from mcphub.client import ControlClient, current_workspace
from mcphub.control.handlers import status
from mcphub.errors import ConfigError, ControlError
from tests.fakes.canned_hub import CannedHub, served, tool, waiting
from tests.fakes.raw_http import short_directory
from tests.store.calls import record

ROOT = str(Path(__file__).parents[1])


@pytest.fixture
def path() -> Iterator[str]:
    with short_directory() as directory:
        yield f"{directory}/control/control.sock"


@pytest.fixture
def hub(path: str) -> Iterator[CannedHub]:
    hub = CannedHub()
    with served(hub, path):
        yield hub


def test_every_method_brings_its_report(path: str) -> None:
    """What the hub said is what the caller gets, and what the caller said is what the hub is asked."""
    hub = CannedHub()
    with served(hub, path) as portal:
        use(ControlClient(path, "/w"), hub)
        portal.call(hub.stopped.wait)
    assert hub.asked == [
        ("call", "/w", "echo", '{"text": "中"}'),
        ("reconnect", "/w", "time"),
        ("reconnect", "/w", "time"),
        ("approve", "/w", "x", "digest-of-x"),
        ("reject", "/w", "x"),
        ("add", "", "new", '{"command": "x"}', "True"),
        ("remove", "/w", "new"),
        ("reload",),
        ("stop",),
    ]


def use(client: ControlClient, hub: CannedHub) -> None:
    hub.items = [waiting("x")]
    assert client.status() == hub.status("/w", None)
    assert client.status("time") == hub.status("/w", "time")
    assert [found["name"] for found in client.tools("now")["tools"]] == ["mcp__time__now"]
    assert client.tools(schemas=True)["tools"][0]["input_schema"] == {"type": "object"}
    assert client.call("echo", '{"text": "中"}')["result"]["content"] == [{"type": "text", "text": "中"}]
    assert client.reconnect() == client.reconnect("time") == {"reconnected": ["time"]}
    assert client.logs("time", 1) == {"name": "time", "dropped": 0, "lines": ["two"]}
    assert client.approvals() == {"items": hub.items}
    hub.records = [record(2, agent="a&b"), record(1, server="x")]
    assert [len(found["calls"]) for found in (client.calls(), client.calls(limit=1))] == [2, 1]
    assert client.calls("op_0000000a1")["calls"] == client.calls(server="x", unknown=True)["calls"]
    assert client.calls(agent="A&B")["calls"][0]["operation"] == "op_0000000a2"
    assert client.why("plugin:x:y")["name"] == "plugin:x:y"
    assert client.policy()["rules"] == []
    ask = client.policy_verdict
    asked = [ask("a b"), ask(url="https://h/?a&b"), ask(command=("x", "&"))]
    assert [one["about"] for one in asked] == ["a b", "https://h/?a&b", "x &"]
    assert client.inventory()["format"] == "mcphub-inventory"
    assert client.approve("x", "digest-of-x")["state"] == "approved"
    assert client.reject("x")["state"] == "rejected"
    assert client.add_server("new", {"command": "x"}, keep=True)["kept"]
    assert client.remove_server("new") == {"name": "new", "workspace": "/w"}
    assert client.reload() == {"revision": 1}
    assert client.stop() == {"pid": os.getpid()}


def test_refusals_carry_message_and_status(hub: CannedHub, path: str) -> None:
    """The daemon's own words, and the status to branch on."""
    client = ControlClient(path)
    with pytest.raises(ControlError, match=r"^there is no server a/b\?c&d#e 中$") as caught:
        client.status("a/b?c&d#e 中")
    assert caught.value.status == 404
    with pytest.raises(ControlError, match=r"^there is no server a/b\?c&d#e 中$") as caught:
        next(client.watch("a/b?c&d#e 中"))
    assert caught.value.status == 404
    with pytest.raises(ControlError, match="must be a JSON object") as caught:
        client.call("echo", "[]")
    assert caught.value.status == 400
    with pytest.raises(ControlError, match="not valid Unicode"):
        client.call("echo", '{"a": "\udcff"}')


def test_a_workspace_keeps_its_bytes(hub: CannedHub, path: str) -> None:
    """A directory need not be text in UTF-8."""
    hub.items = [waiting("x")]
    workspace = os.fsdecode(b"/w \xff/%2F&a=b")
    client = ControlClient(path, workspace)
    assert client.approve("x", "digest-of-x")["workspace"] == workspace
    assert hub.asked == [("approve", workspace, "x", "digest-of-x")]


def test_large_answers_and_large_arguments(hub: CannedHub, path: str) -> None:
    """Megabytes both ways arrive whole."""
    hub.tool_list = [tool(f"t{number}", "x" * 5000) for number in range(1000)]
    client = ControlClient(path)
    assert client.tools()["tools"] == hub.tool_list
    text = "y" * 5_000_000
    assert client.call("echo", f'{{"text":"{text}"}}')["result"]["content"][0]["text"] == text


def test_a_refusal_before_the_end_of_a_large_request_is_read(hub: CannedHub, path: str) -> None:
    """The daemon closes while the client still sends; its reason is not lost in a broken pipe."""
    with pytest.raises(ControlError, match="longer than") as caught:
        ControlClient(path).call("echo", '{"text":"' + "x" * (65 * 2**20) + '"}')
    assert caught.value.status == 413


def test_watch_brings_each_change_until_it_is_closed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats are not reports; the end of the daemon is the end of the iterator."""
    monkeypatch.setattr(status, "HEARTBEAT", 0.02)
    hub = CannedHub()
    with served(hub, path) as portal:
        reports = ControlClient(path).watch()
        assert next(reports)["revision"] == 1
        portal.call(hub.changed)
        assert next(reports)["revision"] == 2
        other = ControlClient(path).watch()
        assert next(other)["revision"] == 2
        other.close()
    assert list(reports) == []


def test_logs_are_followed_until_the_daemon_ends(path: str) -> None:
    """The tail, then each line that comes; heartbeats are not reports."""
    hub = CannedHub()
    with served(hub, path):
        reports = ControlClient(path).follow_logs("time", 1)
        assert next(reports)["lines"] == ["two"]
        assert next(reports)["lines"] == ["one more"]
    assert list(reports) == []


def test_a_thousand_requests_leave_no_descriptor(hub: CannedHub, path: str) -> None:
    """Neither here nor in the server, which lives in this process too."""
    client = ControlClient(path)
    client.status()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(1000):
        client.status()
    deadline = time.monotonic() + 5
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        client.status()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_no_daemon(path: str) -> None:
    """The path, the cause, and what to do; status 0 tells it from a refusal."""
    said = f"^cannot reach the mcphub daemon at {path}: No such file or directory. Start it with `mcphub serve`$"
    with pytest.raises(ControlError, match=said) as caught:
        ControlClient(path).status()
    assert caught.value.status == 0
    os.mkdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
    with pytest.raises(ControlError, match="Connection refused"):
        ControlClient(path).status()


@contextmanager
def answering(path: str, answer: bytes, *, hold: bool = False) -> Iterator[None]:
    """A server that answers one connection with these bytes; `hold` keeps it open after them."""
    os.mkdir(os.path.dirname(path))
    done = threading.Event()

    def serve() -> None:
        connection, _ = sock.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)
            if hold:
                done.wait(10)

    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(10)


REPORT = b'{"revision":1}'
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 14\r\n\r\n" + REPORT + b"more that does not count",
        OK + b"\r\n" + REPORT,
        b"HTTP/1.0 200\r\nServer:x\n\n" + REPORT,
        OK + b"Transfer-Encoding: chunked\r\n\r\n4;x=y\r\n" + REPORT[:4] + b"\r\nA\r\n" + REPORT[4:] + b"\r\n0\r\n\r\n",
    ],
)
def test_the_three_framings_of_http(path: str, answer: bytes) -> None:
    """By length, by the end of the connection, in chunks."""
    with answering(path, answer):
        assert ControlClient(path).status()["revision"] == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-x\r\n", "its answer is not HTTP"),
        (b"x" * 100_000, "its answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "the head of its answer is broken"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, "the head of its answer is broken"),
        (b"HTTP/1.1 200 OK\r\nContent-Len", "the head of its answer is broken"),
        (OK + b"Content-Length: 99\r\n\r\n" + REPORT, "in the middle of its answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nE\r\n" + REPORT, "in the middle of its answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "its answer is broken"),
        (OK + b"\r\n<html>", "its answer is not JSON"),
        (OK + b"\r\n" + b"[" * 100_000, "its answer is not JSON"),
        (b"HTTP/1.1 502 Bad\r\n\r\n{}", "HTTP status 502"),
    ],
)
def test_an_answer_that_is_none(path: str, answer: bytes, said: str) -> None:
    """Whatever listens there, the caller gets one ControlError that names the path."""
    with answering(path, answer), pytest.raises(ControlError, match=said) as caught:
        ControlClient(path).status()
    assert path in str(caught.value)


def test_a_daemon_that_hangs_is_not_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question has a time limit, a stream as long as heartbeats come."""
    with answering(path, OK, hold=True), pytest.raises(ControlError, match="does not answer"):
        ControlClient(path, timeout=0.05).status()
    os.rename(os.path.dirname(path), os.path.dirname(path) + "-old")
    monkeypatch.setattr(client_module, "SILENCE", 0.05)
    stream = OK + b"\r\n" + REPORT + b"\n\n"
    with answering(path, stream, hold=True):
        reports = ControlClient(path).watch()
        assert next(reports)["revision"] == 1
        with pytest.raises(ControlError, match="does not answer"):
            next(reports)


def test_a_full_queue_is_waited_out(path: str) -> None:
    """A daemon that is busy for a moment is not absent; one that never accepts is reported."""
    os.mkdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as sock, socket.socket(socket.AF_UNIX) as other:
        sock.bind(path)
        sock.listen(0)
        other.connect(path)
        with pytest.raises(ControlError, match="temporarily unavailable"):
            ControlClient(path, timeout=0.1).status()


def test_the_default_path_is_this_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime directory says where the socket is."""
    with short_directory() as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        assert ControlClient().path == f"{directory}/mcphub/control/control.sock"


def test_the_current_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deleted working directory is no workspace, not an error."""
    with short_directory() as directory:
        monkeypatch.chdir(directory)
        assert current_workspace() == directory
        assert [current_workspace(one) for one in ("", "a/..", "/")] == ["", directory, "/"]
        Path("file").write_text("")
        for named, cause in (("file", "it is no directory"), ("none", "there is no such directory")):
            with pytest.raises(ConfigError, match=f"cannot ask about {directory}/{named}: {cause}"):
                current_workspace(named)
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir(f"{directory}/gone")
        assert current_workspace() == ""
        os.chdir("/")


def test_it_imports_next_to_nothing() -> None:
    """Start-up time: no HTTP library, no event loop, nothing of the daemon's."""
    code = "import sys; import mcphub.client; print(*sorted(m for m in sys.modules if not m.startswith('_')))"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {ROOT!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("mcphub")} == {"mcphub", "mcphub.client", "mcphub.errors"}
    heavy = {"typing", "dataclasses", "http", "urllib", "asyncio", "anyio", "socket", "selectors", "logging", "msgspec"}
    assert not loaded & heavy
