"""Agents on the socket: who is let in, how they say who they are, and every way in which one leaves."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.sessions import unix_listener as module
from mcphub.sessions.attach import MAX_LINE
from tests.fakes.agent import MODERN, modern_meta
from tests.sessions.house import House, house
from tests.transport.peers import Peer, clean, descriptors, only

pytestmark = pytest.mark.anyio

WELCOME = {"mcp__mcphub__how_to_add_servers", "mcp__mcphub__hub_status"}


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


@pytest.fixture
async def home(nothing_is_left: None) -> AsyncIterator[House]:
    async with house() as home:
        await home.up("mcphub")
        yield home


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def hello(client: str = "c", workspace: str = "") -> bytes:
    return line(method="dev.mcphub/attach", params={"client": client, "workspace": workspace})


PING = line(id=1, method="ping")
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


class Raw(Peer):
    """A connection to the socket, or what a host has of the streams that it gave its bridge."""

    async def message(self) -> Any:
        [found] = await self.lines(1)
        return json.loads(found)


def connect(home: House) -> Raw:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(home.socket)
    fd = sock.detach()
    return Raw(fd, fd)


async def gone(home: House) -> None:
    await home.until(lambda: not home.listener.sessions)


# --- coming -----------------------------------------------------------------------------------------------------------


async def test_an_agent_comes_and_goes(home: House) -> None:
    """It needs to say nothing before it speaks MCP, in either era; it is a session while it is there."""
    async with await home.agent() as agent:
        await agent.initialize()
        assert {tool["name"] for tool in await agent.tools()} == WELCOME
        assert (await agent.modern("server/discover"))["result"]["supportedVersions"][0] == MODERN
        [session] = home.listener.sessions
        assert (session.client, session.workspace, session.pid) == ("fake-agent", "", os.getpid())
    await gone(home)
    assert home.gateway.agents == set()


async def test_people_are_told(home: House) -> None:
    """That an agent came, said who it is in either era, and went, is news; its other messages are none."""
    attendance = home.attendance
    async with await home.agent() as agent:
        before = attendance.revision
        await agent.request("ping")
        came = attendance.revision
        assert came > before
        await agent.initialize()
        named = attendance.revision
        assert named > came
        await agent.request("ping")
        await agent.tools()
        assert attendance.revision == named
    await attendance.newer_than(named)
    await gone(home)
    async with await home.agent() as agent:
        before = attendance.revision
        await agent.modern("server/discover")
        named = attendance.revision
        assert named > before
        await agent.modern("server/discover")
        assert attendance.revision == named
    await attendance.newer_than(named)


@pytest.mark.parametrize("chunk", [1, 10, 1 << 16])
async def test_an_attach_line_in_any_pieces(home: House, chunk: int) -> None:
    """It and what follows it may come in one write or in many."""
    peer = connect(home)
    for at in range(0, len(data := hello("me", str(home.project())) + PING * 3), chunk):
        await peer.write(data[at : at + chunk])
        await anyio.lowlevel.checkpoint()
    assert [json.loads(one) for one in await peer.lines(3)] == [PONG] * 3
    [session] = home.listener.sessions
    assert (session.client, session.workspace) == ("me", str(home.root / "project"))
    peer.close()
    await gone(home)


@pytest.mark.parametrize(
    "first",
    [
        line(method="dev.mcphub/attach", params=5),
        line(method="dev.mcphub/attach", params={"client": 5}),
        line(method="dev.mcphub/attach", params={"workspace": "relative"}),
        line(method="dev.mcphub/attach", params={"workspace": "/a\0b"}),
        b'{"method":"dev.mcphub/attach",\n',
        b'{"x":"dev.mcphub/attach"}\n',
    ],
)
async def test_an_attach_line_that_is_wrong(home: House, first: bytes) -> None:
    """It grants nothing and costs nothing: the agent is one without a workspace."""
    peer = connect(home)
    await peer.write(first + PING)
    answers = [json.loads(one) for one in await peer.lines(1)]
    if answers[-1] != PONG:  # what was no attach line was a message, and wrong as such
        assert answers[0]["error"]["code"] in (-32600, -32700)
        answers += [json.loads(one) for one in await peer.lines(1)] if len(answers) == 1 else []
    assert answers[-1] == PONG
    [session] = home.listener.sessions
    assert session.workspace == ""
    peer.close()
    await gone(home)


async def test_a_first_line_that_does_not_come_whole(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while what has come is the beginning of a message; its rest is not lost."""
    monkeypatch.setattr(module, "ATTACH_TIMEOUT", 0.05)
    peer = connect(home)
    await peer.write(PING[:20])
    await home.until(lambda: len(home.listener.sessions) == 1)
    await peer.write(PING[20:])
    assert await peer.message() == PONG
    peer.close()
    await gone(home)


async def test_a_long_first_line(home: House) -> None:
    """A message longer than any attach line is somebody's message, whatever is in it."""
    peer = connect(home)
    await peer.write(line(id=1, method="ping", params={"x": "dev.mcphub/attach" + "y" * 3 * MAX_LINE}))
    assert await peer.message() == PONG
    peer.close()
    await gone(home)


@pytest.mark.parametrize("data", [b"", b"\n", b"{", b"garbage", b"\xff" * 1000])
async def test_one_that_says_nothing_and_goes(home: House, data: bytes) -> None:
    """C165: it leaves no trace."""
    peer = connect(home)
    await peer.write(data)
    peer.close()
    async with await home.agent() as agent:
        await agent.initialize()
    await gone(home)


async def test_somebody_else(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C164, B15: another user's process that can open the socket all the same is not heard."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    peer = connect(home)
    assert await peer.rest() == b""
    peer.close()
    monkeypatch.undo()
    assert home.logged[-1] == f"warning: refused an agent of uid {os.geteuid()}"
    assert home.listener.sessions == set()


async def test_an_agent_that_is_wrong_disturbs_no_other(home: House) -> None:
    """C165: garbage of one and work of another pass at the same time."""
    wrong = connect(home)
    async with await home.agent() as agent:
        await agent.initialize()
        for _ in range(20):
            await wrong.write(b"\xff\xfe garbage [[[\n" * 50)
            assert (await agent.call("mcp__mcphub__hub_status"))["result"]["content"]
    wrong.close()
    await gone(home)


async def test_an_agent_that_breaks_the_framing(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C050: it is closed, and the log says why."""
    monkeypatch.setattr("mcphub.transport.wire.Wire.__init__.__kwdefaults__", {"limit": 1 << 20, **WIRE_DEFAULTS})
    peer = connect(home)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while True:
            await peer.write(b"A" * (1 << 16))
    peer.close()
    await gone(home)
    assert home.logged[-1] == "info: the session of the agent 1 ended: a line is longer than 1 MiB, and does not end"


# --- hand-over --------------------------------------------------------------------------------------------------------


def given(home: House, fds: list[int], first: bytes = b"") -> Raw:
    """A bridge that hands over these descriptors and keeps none of them."""
    bridge = connect(home)
    with socket.socket(fileno=os.dup(bridge.writing)) as sock:
        socket.send_fds(sock, [first or hello("bridge")], fds)
    for fd in fds:
        os.close(fd)
    return bridge


def streams(kind: str) -> tuple[list[int], Raw]:
    """stdin and stdout of an agent's program, and the host's ends of them."""
    if kind == "pipes":
        stdin, to = os.pipe()
        back, stdout = os.pipe()
        return [stdin, stdout], Raw(back, to)
    if kind == "socket":
        ours, theirs = socket.socketpair()
        fd = theirs.detach()
        host = ours.detach()
        return [fd, os.dup(fd)], Raw(host, host)
    (to_socket, stdin_socket), (back_socket, stdout_socket) = socket.socketpair(), socket.socketpair()
    return [stdin_socket.detach(), stdout_socket.detach()], Raw(back_socket.detach(), to_socket.detach())


kinds = pytest.mark.parametrize("kind", ["pipes", "socket", "sockets"])


@kinds
async def test_streams_that_were_handed_over(home: House, kind: str) -> None:
    """The host speaks with the daemon itself; its end is an orderly one for the bridge."""
    fds, host = streams(kind)
    bridge = given(home, fds)
    assert await bridge.read() == b"taken\n"
    await host.write(PING)
    assert await host.message() == PONG
    [session] = home.listener.sessions
    assert session.client == "bridge"
    host.close()
    assert await bridge.rest() == b"end\n"
    bridge.close()
    await gone(home)


@kinds
async def test_the_bridge_is_the_lease(home: House, kind: str) -> None:
    """Its end ends the session, and its host's streams; nobody finds a description changed that he shares."""
    fds, host = streams(kind)
    shared = [os.dup(fd) for fd in fds]
    bridge = given(home, fds)
    assert await bridge.read() == b"taken\n"
    await home.until(lambda: not any(os.get_blocking(fd) for fd in shared))
    bridge.close()
    await gone(home)
    await home.until(lambda: all(os.get_blocking(fd) for fd in shared))
    for fd in shared:
        os.close(fd)
    assert await host.rest() == b""
    host.close()


@kinds
async def test_the_lease_with_a_host_that_does_not_read(
    home: House, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is queued for it is given up after a moment."""
    monkeypatch.setattr(module, "GOODBYE", 0.05)
    fds, host = streams(kind)
    bridge = given(home, fds)
    assert await bridge.read() == b"taken\n"
    [session] = home.listener.sessions
    session.send(b"x" * (4 << 20))
    bridge.close()
    await gone(home)
    host.close()


async def test_an_agent_that_dies_in_the_middle(home: House) -> None:
    """C158: of a host that is killed with the bridge nothing stays, answers on their way included."""
    fds, host = streams("pipes")
    bridge = given(home, fds)
    assert await bridge.read() == b"taken\n"
    await host.write(line(id=1, method="initialize", params={"protocolVersion": "2025-11-25"}) * 500 + b'{"half')
    host.close()
    bridge.close()
    await gone(home)
    assert home.gateway.agents == set()


def tty() -> list[int]:
    return list(os.openpty())


def file_and_pipe() -> list[int]:
    read, write = os.pipe()
    os.close(read)
    return [os.open(__file__, os.O_RDONLY), write]


def one() -> list[int]:
    return [os.open(os.devnull, os.O_RDONLY)]


def three() -> list[int]:
    return [*os.pipe(), os.open(os.devnull, os.O_RDONLY)]


def four() -> list[int]:
    return [*os.pipe(), *os.pipe()]


@pytest.mark.parametrize("make", [tty, file_and_pipe, one])
async def test_streams_that_cannot_be_taken(home: House, make: Callable[[], list[int]]) -> None:
    """The bridge is told that it must copy, and why; no session begins."""
    bridge = given(home, make())
    said = await bridge.rest()
    assert said.startswith(b"copy ") and said.endswith(b"\n")
    assert home.listener.sessions == set()
    bridge.close()


async def test_more_streams_than_there_are(home: House) -> None:
    """They are closed with the connection."""
    bridge = given(home, four())
    assert await bridge.rest() == b""
    bridge.close()
    assert "more than three descriptors came" in home.logged[-1]


async def test_a_journal_that_is_none(home: House) -> None:
    """Whatever comes in its place, no session begins that would not know what it has to go on with."""
    bridge = given(home, three())
    assert await bridge.rest() == b""
    bridge.close()
    assert "cannot go on: its journal" in home.logged[-1]
    assert home.listener.sessions == set()


async def test_streams_that_come_with_half_a_line(home: House) -> None:
    """The attach line may be cut anywhere, also where the descriptors are."""
    fds, host = streams("pipes")
    said = hello("me", str(home.project()))
    bridge = given(home, fds, said[:10])
    await bridge.write(said[10:] + PING)
    assert await host.message() == PONG
    [session] = home.listener.sessions
    assert (session.client, session.workspace) == ("me", str(home.root / "project"))
    host.close()
    bridge.close()
    await gone(home)


async def test_streams_with_half_a_line_and_no_more(home: House) -> None:
    """What came is closed when the bridge goes."""
    for end in (b"", b"{"):
        fds, host = streams("pipes")
        bridge = given(home, fds, hello()[:10] + end)
        await anyio.sleep(0.01)
        bridge.close()
        assert await host.rest() == b"" or end
        host.close()
    await gone(home)


# --- the daemon's end, and its limits ---------------------------------------------------------------------------------


async def test_the_daemon_ends(home: House) -> None:
    """Subscriptions get their result, then every agent its end; bridges hear of it; streams are given back."""
    fds, host = streams("pipes")
    shared = [os.dup(fd) for fd in fds]
    bridge = given(home, fds)
    assert await bridge.read() == b"taken\n"
    listen = {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()}
    await host.write(line(id="sub", method="subscriptions/listen", params=listen))
    assert (await host.message())["method"] == "notifications/subscriptions/acknowledged"
    async with await home.agent() as plain:
        await plain.initialize()
        await home.end_listening()
        await plain.end()
    assert await bridge.rest() == b"end\n"
    assert [os.get_blocking(fd) for fd in shared] == [True, True]
    for fd in shared:
        os.close(fd)
    result, cancelled = map(json.loads, (await host.rest()).splitlines())
    assert result["id"] == "sub" and result["result"]["resultType"] == "complete"
    assert cancelled["params"]["requestId"] == "sub"
    bridge.close()
    host.close()


async def test_the_daemon_ends_with_agents_that_do_not_read(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold it up for a moment, all of them together."""
    monkeypatch.setattr(module, "GOODBYE", 1.5)
    peers = [connect(home) for _ in range(10)]
    for peer in peers:
        await peer.write(PING)
        assert await peer.message() == PONG
    for session in home.listener.sessions:
        session.send(b"x" * (4 << 20))
    with anyio.fail_after(10):  # one after the other would take longer
        await home.end_listening()
    for peer in peers:
        peer.close()


async def test_no_descriptor_left_to_accept_with(home: House) -> None:
    """It is said once; those who are there go on; whoever waits is let in as soon as there is room."""
    async with await home.agent() as agent:
        await agent.initialize()
        peer = connect(home)
        with only(0):
            await peer.write(PING)
            await home.until(lambda: any("cannot accept" in text for text in home.logged))
            await anyio.sleep(3 * module.EXHAUSTED)
            assert (await agent.call("mcp__mcphub__hub_status"))["result"]["content"]
        assert await peer.message() == PONG
        assert sum("cannot accept" in text for text in home.logged) == 1
        peer.close()
    await gone(home)


@kinds
async def test_no_descriptor_left_to_take_streams_with(
    home: House, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bridge is refused and may copy; nothing hangs, nothing is left."""
    monkeypatch.setattr(module, "EXHAUSTED", 0.01)
    before = descriptors()
    for free in range(7):
        fds, host = streams(kind)
        bridge = given(home, fds)
        with only(free), anyio.move_on_after(0.05):
            await bridge.read()
        bridge.close()
        host.close()
        await gone(home)
        await home.until(lambda: descriptors() == before)
    async with await home.agent() as agent:
        await agent.initialize()
    await gone(home)


async def test_a_hundred_agents_at_once(home: House, tmp_path: Path) -> None:
    """Each is answered, and all of them leave."""
    async with anyio.create_task_group() as tasks:

        async def life(number: int) -> None:
            async with await home.agent(client=str(number)) as agent:
                await agent.initialize()
                assert len(await agent.tools()) == 2

        for number in range(100):
            tasks.start_soon(life, number)
    await gone(home)


WIRE_DEFAULTS = {"full_at": 8 << 20, "keep_reading": False, "on_error": None}
