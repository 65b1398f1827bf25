"""Headers that a real program prints, on real servers of each transport at a URL, and what becomes of refusals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request as Upgrade

from mcphub.errors import TransportError
from mcphub.spec import HelperSpec, HttpSpec, Secret, SseSpec, WsSpec
from mcphub.transport.process import Launcher
from tests.fakes.rude_http import Feed, Reply, Request, RudeHttp, body, empty, event, stream
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.scripted import dumped
from tests.transport.http_peers import Peer, linked
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio
KINDS: dict[str, type[HttpSpec]] = {"http": HttpSpec, "sse": SseSpec, "ws": WsSpec}

#: Prints another token at each run, and its environment to a file.
HELPER = """
import json, os, sys
folder = sys.argv[1]
names = os.listdir(folder)
open(os.path.join(folder, str(len(names) + 1)), "w").write(json.dumps(dict(os.environ)))
print("fetching a token", file=sys.stderr)
print(json.dumps({"Authorization": f"Bearer secret-{len(names) + 1}", "X-Team": "helped"}))
"""


class Gate:
    """A server of each kind that lets in the tokens of some runs; what it saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.valid: set[str] = {"Bearer secret-1"}
        self.seen: list[tuple[str, str]] = []
        self.status = 401
        self._feed = Feed()

    @property
    def runs(self) -> int:
        return len(os.listdir(self.folder))

    def closed(self, token: str | None, team: str | None) -> bool:
        self.seen.append((token or "", team or ""))
        return token not in self.valid

    def page(self, request: Request) -> Reply:
        if self.closed(request.header("Authorization"), request.header("X-Team")):
            return empty(self.status)
        return body(dumped({"jsonrpc": "2.0", "id": request.message["id"], "result": {}}))

    def old(self, request: Request) -> Reply:
        if self.closed(request.header("Authorization"), request.header("X-Team")):
            return empty(self.status)
        if request.method == "GET":
            self._feed.send(event("/messages", name="endpoint"))
            return stream(self._feed)
        self._feed.send(event(dumped({"jsonrpc": "2.0", "id": request.message["id"], "result": {}})))
        return empty(202)

    def upgrade(self, request: Upgrade) -> tuple[int, dict[str, str]] | None:
        closed = self.closed(request.headers.get("Authorization"), request.headers.get("X-Team"))
        return (self.status, {}) if closed else None

    async def said(self, connection: ServerConnection, message: str) -> None:
        await connection.send(dumped({"jsonrpc": "2.0", "id": json.loads(message)["id"], "result": {}}), text=True)

    @asynccontextmanager
    async def open(self, kind: str) -> AsyncIterator[str]:
        if kind == "ws":
            async with RudeWebSocket(self.said, refuse=self.upgrade) as socket:
                yield socket.url
        else:
            async with RudeHttp(self.page if kind == "http" else self.old) as http:
                yield http.url


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    folder = tmp_path / "runs"
    folder.mkdir()
    (tmp_path / "helper.py").write_text(HELPER)
    return Gate(folder)


@asynccontextmanager
async def helped(kind: str, url: str, gate: Gate, **more: Any) -> AsyncIterator[Peer]:
    words = (sys.executable, "-I", "-S", str(gate.folder.parent / "helper.py"), str(gate.folder))
    helper = HelperSpec(tuple(map(Secret, words)), "python helper.py", "/")
    env = {"PATH": os.environ["PATH"], "HOME": "/", "VAULT_TOKEN": "tok-1"}
    headers = {"authorization": "Bearer static", "X-Static": "1"}
    async with Launcher() as launcher:
        options = {"kind": KINDS[kind], "launcher": launcher, "helper": helper, **more}
        async with linked(url, headers, env, **options) as peer:
            yield peer


@pytest.mark.parametrize("kind", KINDS)
async def test_its_headers_are_sent(kind: str, gate: Gate) -> None:
    """They stand in place of those of the same name in the entry, on everything that is sent; each connection runs it
    once, and what it prints is hidden; what it writes to stderr is kept."""
    hidden: list[str] = []
    async with gate.open(kind) as url:
        for run in (1, 2):
            gate.valid = {f"Bearer secret-{run}"}
            async with helped(kind, url, gate, hide=lambda *values: hidden.extend(values)) as peer:
                assert await peer.ask("a") == "answered"
                assert await peer.ask("b") == "answered"
                assert "headersHelper: fetching a token" in peer.notes
            assert gate.runs == run
    assert set(gate.seen) == {("Bearer secret-1", "helped"), ("Bearer secret-2", "helped")}
    assert set(hidden) == {"Bearer secret-1", "secret-1", "helped", "Bearer secret-2", "secret-2"}
    env = json.loads((gate.folder / "1").read_text())
    assert (env["MCPHUB_SERVER_NAME"], env["CLAUDE_CODE_MCP_SERVER_URL"]) == ("remote", url)
    assert env["VAULT_TOKEN"] == "tok-1"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_run_once_more(kind: str, status: int, gate: Gate) -> None:
    """C116: what is refused is sent once more with what another run gave, and nobody hears of it."""
    gate.valid, gate.status = {"Bearer secret-2"}, status
    async with gate.open(kind) as url, helped(kind, url, gate) as peer:
        assert await peer.ask("a") == "answered"
    assert gate.runs == 2
    assert [token for token, _ in gate.seen][:2] == ["Bearer secret-1", "Bearer secret-2"]


async def test_credentials_that_run_out(gate: Gate) -> None:
    """C116: five requests that meet the end of a token at once are one run, and all are answered."""
    async with gate.open("http") as url, helped("http", url, gate) as peer:
        assert await peer.ask("a") == "answered"
        gate.valid = {"Bearer secret-2"}
        mids = [peer.start("b") for _ in range(5)]
        assert [await peer.ended(mid) for mid in mids] == ["answered"] * 5
        assert gate.runs == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_credentials_that_are_never_right(kind: str, gate: Gate) -> None:
    """C116: refused after another run too, it is refused by name; that is no matter of signing in, and the helper is
    not run again and again."""
    gate.valid = set()
    said = ""
    async with gate.open(kind) as url:
        if kind == "ws":
            with pytest.raises(TransportError) as caught:
                async with helped(kind, url, gate):
                    raise AssertionError("opened")
            assert caught.value.kind == "refused"
            said = str(caught.value)
        else:
            async with helped(kind, url, gate) as peer:
                for _ in range(3 if kind == "http" else 1):
                    mid = peer.start("initialize")
                    assert await peer.ended(mid) == "refused"
                    said = peer.told.text(mid)
    assert "refuses the credentials that headersHelper printed (HTTP 401 Unauthorized)" in said
    assert "secret" not in said
    assert gate.runs == 2


async def test_a_helper_that_fails(gate: Gate) -> None:
    """Nothing is sent where it fails; the message names server, place and cause."""
    (gate.folder.parent / "helper.py").write_text("import sys; print('secret-9'); sys.exit('no ticket')")
    for kind in KINDS:
        async with gate.open(kind) as url:
            with pytest.raises(TransportError) as caught:
                async with helped(kind, url, gate):
                    raise AssertionError("opened")
        assert caught.value.kind == "spawn"
        said = "cannot get the headers of remote: its helper (/mcp.json remote.headersHelper): exited with code 1; see "
        assert str(caught.value) == said + "`mcphub logs remote`"
    assert gate.seen == []
