"""A server inside the daemon, behind the same channel as a process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from mcphub.errors import JSONRPCError, TransportError
from mcphub.transport.in_process import InProcessLink, open_in_process
from tests.transport.peers import Recorder, clean

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(5):
            yield


def handler(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "refuse":
        raise JSONRPCError(-32602, "not like this")
    if method == "fault":
        raise KeyError("boom")
    return {"method": method, "params": params}


def request(mid: Any, method: str, params: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{json.dumps(mid)},"method":"{method}","params":{params}}}\n'.encode()


async def test_requests_and_their_answers() -> None:
    """In order, each with its own id; an error of the handler is an answer; what is no request is not answered."""
    recorder = Recorder()
    async with open_in_process("x", {"x": handler}, recorder) as link:
        assert isinstance(link, InProcessLink)
        assert link.pid is None
        assert await link.exit_code(0) is None
        link.channel.send(request(1, "echo", '{"a":"\\u6f22"}'))
        link.channel.send(request(2, "refuse")[:20], request(2, "refuse")[20:])
        link.channel.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        link.channel.send(request(3, "fault"))
        link.channel.send(request("4", "echo"))
        assert recorder.count == 0, "not within the call that sends"
        await recorder.until(4)
        answers = [json.loads(line) for line in recorder.lines]
        assert [answer["id"] for answer in answers] == [1, 2, 3, "4"]
        assert answers[0]["result"] == {"method": "echo", "params": {"a": "漢"}}
        assert answers[1]["error"] == {"code": -32602, "message": "not like this"}
        assert answers[2]["error"] == {"code": -32603, "message": "KeyError: 'boom'"}
    assert recorder.reasons == [""]


async def test_the_end() -> None:
    """After it nothing is answered any more, and nothing raises."""
    recorder = Recorder()
    async with open_in_process("x", {"x": handler}, recorder) as link:
        link.channel.send(request(1, "echo"))
        link.channel.abort()
        link.channel.abort()
        link.channel.send(request(2, "echo"))
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    assert recorder.lines == []
    assert recorder.reasons == [""]


async def test_a_receiver_that_raises() -> None:
    """A fault in taking an answer closes this channel only, with the reason, and is reported."""

    def fault(line: bytes | memoryview) -> None:
        raise ValueError("boom")

    recorder, reported = Recorder(fault), list[BaseException]()
    async with open_in_process("x", {"x": handler}, recorder, reported.append) as link:
        link.channel.send(request(1, "echo"))
        assert await recorder.until_lost() == "internal error: ValueError: boom"
        link.channel.send(request(2, "echo"))
        await anyio.lowlevel.checkpoint()
    assert [str(e) for e in reported] == ["boom"]
    assert len(recorder.reasons) == 1


async def test_answers_that_are_awaited() -> None:
    """A handler may take its time: others are answered meanwhile, a fault is an answer, and what is cancelled, or under
    way at the end, is cancelled in the handler and not answered."""
    ended: list[str] = []
    go = anyio.Event()

    async def later(method: str) -> dict[str, Any]:
        try:
            if method == "fault":
                raise JSONRPCError(-32602, "not so")
            await (go.wait() if method == "wait" else anyio.sleep_forever())
            return {"waited": True}
        finally:
            ended.append(method)

    def slow(method: str, params: dict[str, Any]) -> Any:
        return {"now": True} if method == "now" else later(method)

    recorder = Recorder()
    async with open_in_process("x", {"x": slow}, recorder) as link:
        for mid, method in enumerate(("wait", "never", "never", "fault", "now"), 1):
            link.channel.send(request(mid, method))
        await recorder.until(2)
        assert sorted(json.loads(line)["id"] for line in recorder.lines) == [4, 5]
        assert b"not so" in b"".join(recorder.lines)
        for params in ('{"requestId":2}', '{"requestId":99}', "[]"):
            link.channel.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":%b}\n' % params.encode())
        go.set()
        await recorder.until(3)
        assert json.loads(recorder.lines[2]) == {"jsonrpc": "2.0", "id": 1, "result": {"waited": True}}
        assert sorted(ended) == ["fault", "never", "wait"]
    assert sorted(ended) == ["fault", "never", "never", "wait"]
    assert (len(recorder.lines), recorder.reasons) == (3, [""])


ENDS = {
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "generator": GeneratorExit(),
    "cancelled": asyncio.CancelledError(),
    "own": type("Own", (BaseException,), {})("words"),
}


async def test_what_would_end_the_program_ends_its_call() -> None:
    """Whatever a handler raises, at once, awaited or in a thread, is the answer to that request and to no other."""

    async def later(error: BaseException) -> dict[str, Any]:
        await anyio.lowlevel.checkpoint()
        raise error

    def throw(error: BaseException) -> dict[str, Any]:
        raise error

    def rude(method: str, params: dict[str, Any]) -> Any:
        how, _, which = method.partition(" ")
        if how == "now":
            throw(ENDS[which])
        if how == "later":
            return later(ENDS[which])
        return anyio.to_thread.run_sync(throw, ENDS[which]) if how == "thread" else {}

    recorder = Recorder()
    methods = [f"{how} {which}" for how in ("now", "later", "thread") for which in ENDS]
    methods.remove("thread generator")
    async with open_in_process("x", {"x": rude}, recorder) as link:
        for mid, method in enumerate([*methods, "fine"]):
            link.channel.send(request(mid, method))
        await recorder.until(len(methods) + 1)
        found = {one["id"]: one for one in map(json.loads, recorder.lines)}
        assert found.pop(len(methods)) == {"jsonrpc": "2.0", "id": len(methods), "result": {}}
        for mid, method in enumerate(methods):
            error = ENDS[method.partition(" ")[2]]
            assert found[mid]["error"] == {"code": -32603, "message": f"{type(error).__name__}: {error}"}
    assert recorder.reasons == [""]


async def test_a_thread_that_raises_generator_exit() -> None:
    """It closes the task that awaits it, whatever that catches: the call is answered, and this connection ends."""

    def throw() -> dict[str, Any]:
        raise GeneratorExit

    recorder = Recorder()
    with pytest.raises(TransportError, match="the server failed: GeneratorExit"):
        servers = {"x": lambda method, params: anyio.to_thread.run_sync(throw)}
        async with open_in_process("x", servers, recorder) as link:
            link.channel.send(request(1, "x"))
            await anyio.sleep_forever()
    assert [json.loads(line)["error"]["message"] for line in recorder.lines] == ["GeneratorExit: "]
    assert recorder.reasons == [""]


async def test_a_name_that_the_daemon_does_not_have() -> None:
    """An entry can be wrong here too."""
    with pytest.raises(TransportError, match="cannot open the in-process server y") as error:
        async with open_in_process("y", {"x": handler}, Recorder()):
            pass
    assert error.value.kind == "not_found"


async def test_notifications_of_a_handler() -> None:
    """One whose third parameter is `notify` can say something at any time: in front of its answer, later, from another
    thread; after the end it is dropped. One that takes something else there is called as ever."""
    recorder, kept = Recorder(), list[Any]()

    def telling(method: str, params: dict[str, Any], notify: Any) -> dict[str, Any]:
        kept.append(notify)
        notify("notifications/x", {"n": 1})
        return {}

    def other(method: str, params: dict[str, Any], more: int = 5) -> dict[str, Any]:
        return {"more": more}

    async with open_in_process("x", {"x": telling}, recorder) as link:
        link.channel.send(request(1, "echo"))
        await recorder.until(2)
        kept[0]("notifications/x", {"n": 2})
        await anyio.to_thread.run_sync(kept[0], "notifications/x", {"n": 3})
        await recorder.until(4)
        found = [json.loads(line) for line in recorder.lines]
        assert [one.get("params", one.get("result")) for one in found] == [{"n": 1}, {}, {"n": 2}, {"n": 3}]
    kept[0]("notifications/x", {"n": 4})
    assert recorder.count == 4
    second = Recorder()
    async with open_in_process("x", {"x": other}, second) as link:
        link.channel.send(request(1, "echo"))
        await second.until(1)
        assert json.loads(second.lines[0])["result"] == {"more": 5}
