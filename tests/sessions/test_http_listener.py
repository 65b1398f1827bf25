"""Where agents come over HTTP, and who may."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys

import anyio
import psutil
import pytest

from tests.fakes.http_agent import HttpAgent
from tests.fakes.inside import inside

pytestmark = pytest.mark.anyio

NOBODY = 65534


async def test_the_two_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: the loopback socket is bound to 127.0.0.1, needs the token, and is found in the status without it; the Unix
    sockets are 0600 in a directory of 0700, and need none. All are gone afterwards."""
    async with inside(monkeypatch, {}) as hub:
        report = (await hub.status())["daemon"]
        path = report["http_socket"]
        assert path == str(hub.place.agent_socket.with_name("http.sock"))
        for unix in (path, hub.place.agent_socket):
            assert stat.S_IMODE(os.stat(unix).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        port = int(report["http_url"].rsplit(":")[-1])
        bound = [c.laddr.ip for c in psutil.Process().net_connections("tcp") if c.laddr.port == port and not c.raddr]
        assert bound == ["127.0.0.1"]
        inner = HttpAgent(f"unix://{path}#/mcp")
        assert (await inner.modern("server/discover")).status == 200
        assert (await inner.modern("server/discover", headers={"Host": "evil.example"})).status == 200
        assert (await inner.modern("server/discover", headers={"Origin": "https://evil.example"})).status == 403
        outer = await hub.http_agent()
        assert (await outer.modern("server/discover")).status == 200
        token = (hub.place.root / "state" / "mcphub" / "http-token").read_text("utf-8").strip()
        assert outer.url == f"{report['http_url']}/t/{token}/mcp"
        outer.path = "/mcp"
        assert (await outer.modern("server/discover")).status == 401
        assert (await outer.modern("server/discover", headers={"Authorization": f"Bearer {token}"})).status == 200
    assert not await anyio.Path(path).exists()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


async def test_no_tcp_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """C180: without a setting nothing of mcphub listens on the network, and no token exists."""
    async with inside(monkeypatch, {}, settings="") as hub:
        listening = [c for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert listening == []
        assert (await hub.status())["daemon"]["http_url"] is None
        assert not (hub.place.root / "state" / "mcphub" / "http-token").exists()
        code, report = await hub.control("GET", "/v1/url")
        assert (code, report["url"], report["path"]) == (200, None, "/mcp")
        agent = HttpAgent(f"unix://{report['socket']}#{report['path']}")
        assert (await agent.initialize()).status == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.168.0.1:80", ":80"])
async def test_only_the_loopback(monkeypatch: pytest.MonkeyPatch, listen: str) -> None:
    """Row 15: another address is refused, shown, and costs nothing but itself."""
    async with inside(monkeypatch, {}, settings=f'[http]\nlisten = "{listen}"\n') as hub:
        report = await hub.status()
        assert report["daemon"]["http_url"] is None
        assert any("http.listen" in problem and "loopback" in problem for problem in report["problems"])


async def test_a_taken_port_is_a_problem_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon starts without it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        async with inside(monkeypatch, {}, settings=f'[http]\nlisten = "{listen}"\n') as hub:
            report = await hub.status()
            assert report["daemon"]["http_url"] is None
            assert any(listen in problem for problem in report["problems"])


async def test_another_uid_is_let_down_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 15: the kernel's word counts on the Unix socket."""
    async with inside(monkeypatch, {}) as hub:
        path = hub.place.agent_socket.with_name("http.sock")
        agent = HttpAgent(f"unix://{path}#/mcp")
        if os.geteuid() == 0:
            for parent in (path.parent, path.parent.parent, path.parent.parent.parent, hub.place.root):
                parent.chmod(0o755)  # let nobody come as far as the socket itself
            path.chmod(0o666)
            code = (
                "import os, socket, sys\n"
                f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
                "s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(sys.argv[1])\n"
                "try:\n    s.sendall(b'POST /mcp HTTP/1.0\\r\\n\\r\\n'); print(s.recv(100))\n"
                "except OSError: print(b'')\n"
            )
            done = await anyio.run_process([sys.executable, "-I", "-c", code, str(path)])
            assert done.stdout == b"b''\n"
        else:
            uid = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
            with pytest.raises(anyio.IncompleteRead):
                await agent.modern("server/discover")
            monkeypatch.setattr(os, "geteuid", lambda: uid)
        assert "refused an agent of uid" in caplog.text
        assert (await agent.modern("server/discover")).status == 200


async def test_a_session_is_of_one_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """B17, H5: an id that was given to one principal is unknown to another, and on another path."""
    async with inside(monkeypatch, {}) as hub:
        outer = await hub.http_agent()
        await outer.initialize()
        inner = HttpAgent(f"unix://{hub.place.agent_socket.with_name('http.sock')}#/mcp")
        inner.session, inner.version = outer.session, outer.version
        assert (await inner.request("ping")).status == 404
        assert (await inner.ask("DELETE", inner.legacy_headers)).status == 404
        assert (await outer.request("ping")).status == 200
        elsewhere = await hub.http_agent(workspace="/")
        elsewhere.session, elsewhere.version = outer.session, outer.version
        assert (await elsewhere.request("ping")).status == 404


async def test_starting_and_stopping_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither tasks nor descriptors."""
    tasks = len(asyncio.all_tasks())
    async with inside(monkeypatch, {}):
        pass
    descriptors = psutil.Process().num_fds()
    async with inside(monkeypatch, {}) as hub:
        assert (await (await hub.http_agent()).initialize()).status == 200
    with anyio.fail_after(5):
        while len(asyncio.all_tasks()) > tasks:
            await anyio.lowlevel.checkpoint()
    assert psutil.Process().num_fds() <= descriptors
