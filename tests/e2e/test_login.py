"""A person's side of signing in: `mcphub login` and `logout`, what status says, what an agent is told."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import psutil
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.agent import Agent
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import Guarded, RudeAs, error
from tests.fakes.rude_http import RudeHttp

pytestmark = pytest.mark.anyio

SECRET = "s-e-c-r-e-t-7"


@dataclass
class World:
    hub: Hub
    server: RudeAs
    guarded: Guarded
    url: str

    async def begin(self, *words: str, **env: str) -> Login:
        process = await anyio.open_process(
            [str(MCPHUB), "login", *words], env=self.hub.place.environment(**env), cwd=self.hub.place.root
        )
        return Login(process)

    async def run(self, *words: str, **env: str) -> tuple[int, str, str]:
        done = await anyio.run_process(
            [str(MCPHUB), *words], env=self.hub.place.environment(**env), cwd=self.hub.place.root, check=False
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def confidential(self) -> list[str]:
        return [one for one in self.server.confidential if one]

    async def leaks(self) -> list[str]:
        """What of the tokens, codes and verifiers can be seen anywhere."""
        paths = ("/v1/status", "/v1/config", "/v1/why/far", "/v1/vault", "/v1/logs/far")
        told = json.dumps([(await self.hub.control("GET", path))[1] for path in paths]) + self.hub.stderr()
        for name in ("state", "config", "cache", "data", "run"):
            for path in (self.hub.place.root / name).rglob("*"):
                if path.is_file():
                    told += path.read_bytes().decode("latin-1")
        for process in self.hub.place.processes():
            told += repr((process.cmdline(), process.environ()))
        return [one for one in (*self.confidential(), SECRET) if one in told]


class Login:
    """One `mcphub login` that runs."""

    def __init__(self, process: Process) -> None:
        self.process = process
        assert process.stdout is not None
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def line(self) -> str:
        with anyio.fail_after(20):
            return (await self._lines.receive_until(b"\n", 1 << 16)).decode()

    async def report(self, state: str) -> dict[str, Any]:
        """The next one of this state; each line is JSON."""
        while (report := json.loads(await self.line()))["state"] != state:
            assert report["state"] == "starting", report
        return dict(report)

    async def end(self) -> int:
        with anyio.fail_after(20):
            code = await self.process.wait()
        await self.process.aclose()
        return code


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def get(url: str, *, follow: bool = True, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], str]:
    """What a browser gets; a refusal is an answer like any other."""
    opener = urllib.request.build_opener(*([] if follow else [Stay()]), urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers or {}), timeout=20) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, dict(answer.headers), answer.read().decode()


async def browse(url: str, **more: Any) -> tuple[int, dict[str, str], str]:
    return await anyio.to_thread.run_sync(lambda: get(url, **more))


@asynccontextmanager
async def world(oauth: dict[str, Any] | None = None, **settings: str) -> AsyncIterator[World]:
    """A daemon with one server, `far`, that wants a sign-in."""
    async with RudeAs() as server:
        guarded = Guarded(server, OrdinaryMcp())
        async with RudeHttp(guarded, "/mcp") as mcp:
            server.protects(mcp.url)
            entry = {"type": "http", "url": mcp.url, **({"oauth": oauth} if oauth else {})}
            place = Place()
            try:
                text = f'[vault]\nkey = "file:{place.root}/key"\n[oauth]\nnotify = false\n'
                async with running({"far": entry}, settings=text, place=place) as hub:
                    yield World(hub, server, guarded, mcp.url)
            finally:
                place.remove()


async def test_a_sign_in_and_its_end() -> None:
    """C118, C100: a server that wants a sign-in says how, quietly; a login wakes it, and its tokens are seen nowhere;
    while it is waited for, nothing listens but on the loopback; a logout revokes, and says again what is needed."""
    async with world() as w:
        await w.hub.until_state("far", state="needs-auth")
        row = await w.hub.server("far")
        assert row["sign_in"]["reason"] == "login_required"
        assert row["sign_in"]["how"] == "browser"
        assert "mcphub login far" in row["reason"]
        code, out, _ = await w.run("status", "far")
        assert code == 1 and "mcphub login far" in out

        login = await w.begin("far", "--no-browser", "--json")
        waiting = await login.report("waiting")
        assert waiting["host"] == f"127.0.0.1:{w.server.port}" and waiting["client"] == "dcr"
        assert w.hub.process is not None
        listening = {
            (one.laddr.ip, one.laddr.port)
            for one in psutil.Process(w.hub.process.pid).net_connections("inet")
            if one.status == psutil.CONN_LISTEN
        }
        assert {ip for ip, _ in listening} <= {"127.0.0.1", "::1"} and len({port for _, port in listening}) == 1
        [port] = {port for _, port in listening}
        for path in ("/favicon.ico", "/", "/callback/x"):
            status, headers, page = await browse(f"http://127.0.0.1:{port}{path}")
            assert status == 404
        status, _, page = await browse(f"http://127.0.0.1:{port}/callback?code=x&state=<b>forged</b>")
        assert status == 400 and "forged" not in page
        status, headers, page = await browse(waiting["url"])
        assert status == 200 and "You can close this window" in page
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
        done = await login.report("done")
        assert (done["name"], await login.end()) == ("far", 0)
        await w.hub.until_state("far")
        assert await w.leaks() == []
        assert "sign_in" not in await w.hub.server("far")
        code, out, _ = await w.run("login", "--all")
        assert (code, out) == (0, "no server needs a sign-in\n")

        code, out, _ = await w.run("logout", "far")
        assert (code, out) == (0, "far: signed out, and its tokens are revoked\n")
        assert len(w.server.asked("revoke")) == 2
        row = (await w.hub.until_state("far", state="needs-auth"))["servers"][0]
        assert row["sign_in"]["how"] == "browser"
        code, out, _ = await w.run("logout", "--all", "--json")
        assert (code, json.loads(out)) == (0, {"signed_out": [], "others": 0})


async def test_no_browser_here() -> None:
    """1.8: the address that a browser ended at is pasted; what belongs to another sign-in ends this one. Ctrl-C, and a
    second login, end it too, and what was before stays."""
    async with world({"clientId": "cid"}) as w:
        await w.hub.until_state("far", state="needs-auth")
        login = await w.begin("far", "--no-browser", "--json")
        waiting = await login.report("waiting")
        assert waiting["client"] == "config"
        assert login.process.stdin is not None
        await login.process.stdin.send(b"http://127.0.0.1/callback?code=x&state=y\n")
        failed = await login.report("failed")
        assert failed["reason"] == "state_mismatch"
        assert await login.end() == 1

        login = await w.begin("far", "--no-browser")
        assert "127.0.0.1" in await login.line()
        assert "any browser" in await login.line()
        url = (await login.line()).strip()
        _, headers, _ = await browse(url, follow=False)
        assert login.process.stdin is not None
        await login.process.stdin.send(headers["Location"].encode() + b"\n")
        assert await login.end() == 0
        await w.hub.until_state("far")
        assert not w.server.asked("register")

        again = await w.begin("far", "--no-browser", "--json")
        await again.report("waiting")
        other = await w.begin("far", "--no-browser", "--json")
        waiting = await other.report("waiting")
        assert (await again.report("superseded"))["name"] == "far"
        assert await again.end() == 1
        other.process.send_signal(signal.SIGINT)
        assert await other.end() == 130
        assert (await w.hub.server("far"))["state"] == "connected"
        with anyio.fail_after(10):
            while (await browse_port(waiting["url"])) is not None:
                pass
        assert (await w.hub.server("far"))["state"] == "connected"
        assert await w.leaks() == []


async def browse_port(url: str) -> int | None:
    """The status that the callback of this sign-in answers with, None = nobody listens there."""
    callback = parse_qs(urlsplit(url).query)["redirect_uri"][0]
    try:
        return (await browse(f"{callback}x"))[0]
    except urllib.error.URLError:
        return None


async def test_a_browser_opens(tmp_path: Path) -> None:
    """S7: $BROWSER is given the address as one word of its argv, by no shell; what the person sees first is the host;
    a sign-in that fails says why, by a reason of the closed list."""
    async with world() as w:
        await w.hub.until_state("far", state="needs-auth")
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$1" > {tmp_path}/seen\n')
        browser.chmod(0o755)
        login = await w.begin("far", BROWSER=str(browser))
        assert f"the sign-in is at 127.0.0.1:{w.server.port} (mcphub registered itself there)" in await login.line()
        await login.line()
        url = (await login.line()).strip()
        seen = tmp_path / "seen"
        await eventually(lambda: seen.exists() and seen.read_text().count("\n") == 2, timeout=10)
        assert seen.read_text() == f"1\n{url}\n"
        w.server.on("code", error("invalid_grant"), times=1)
        status, _, page = await browse(url)
        assert status == 400 and "did not work" in page and "invalid_grant" not in page
        assert await login.end() == 1
        assert login.process.stderr is not None

        w.server.on("metadata", error("temporarily_unavailable", status=503))
        code, out, _ = await w.run("login", "far", "--json", "--no-browser")
        last = json.loads(out.splitlines()[-1])
        assert (code, last["state"], last["reason"], last["retry"]) == (1, "failed", "discovery_failed", True)
        code, _, complaint = await w.run("login", "nobody")
        assert code == 1 and "nobody" in complaint


async def test_who_cannot_be_signed_in_to() -> None:
    """A program, an entry with its own header, `oauth: false`: told why, and nothing is asked anywhere."""
    remote = {"type": "http", "url": "http://127.0.0.1:9/"}
    servers = {
        "program": Fake(),
        "header": {**remote, "headers": {"Authorization": "Bearer x-x-x-x"}},
        "never": {**remote, "oauth": False},
        "socket": {"type": "ws", "url": "ws://127.0.0.1:9/"},
        "wrong": {**remote, "oauth": {"clientSecret": "x"}},
        "xaa": {**remote, "oauth": {"xaa": True, "clientId": "c"}},
    }
    expected = {
        "program": "it is a program",
        "header": "its entry brings its credentials",
        "never": '"oauth": false',
        "socket": "at a WebSocket",
        "wrong": "clientSecret is the secret of an id",
        "xaa": "no identity provider is named",
    }
    async with running(servers) as hub:
        for name, text in expected.items():
            code, report = await hub.control("POST", f"/v1/servers/{name}/login", body={})
            assert (code, text in report["error"]["message"]) == (409, True), report
        code, report = await hub.control("POST", "/v1/servers/nobody/login", body={})
        assert code == 404
        # Nobody has approved it yet: not even its address is asked.
        project = hub.place.root / "w"
        project.mkdir()
        theirs = {"theirs": {**remote, "oauth": {"issuer": "https://i/"}}}
        (project / ".mcp.json").write_text(json.dumps({"mcpServers": theirs}))
        code, report = await hub.control("POST", "/v1/servers/theirs/login", body={"workspace": str(project)})
        assert code == 409 and "mcphub approve theirs" in report["error"]["message"]
        code, report = await hub.control("GET", "/v1/approvals", query={"workspace": str(project)})
        assert [item["oauth"] for item in report["items"]] == ['{"issuer": "https://i/"}']
        code, report = await hub.control("POST", "/v1/servers/never/paste", body={"url": "x"})
        assert code == 409


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_agent_sends_its_person(era: str) -> None:
    """C118, B45: a call to a server that wants a sign-in says so, by a page of mcphub's own where the agent can show
    one; no browser opens by itself. When the person has gone there and on, a legacy agent is told, and the same call
    works."""
    async with world() as w:
        await w.hub.until_state("far", state="needs-auth")
        able: dict[str, Any] = {"elicitation": {"url": {}}}
        meta = {"io.modelcontextprotocol/clientCapabilities": able}
        call = {"name": "mcp__far__echo", "arguments": {"text": "x"}}

        async def ask(agent: Agent, **more: Any) -> dict[str, Any]:
            if era == "modern":
                return await agent.modern("tools/call", {**call, **more}, meta=meta)
            return await agent.request("tools/call", call)

        async with await w.hub.agent() as unable:
            await unable.initialize()
            told = (await unable.call("mcp__far__echo"))["result"]
            assert told["isError"] and "mcphub login far" in told["content"][0]["text"]
        async with await w.hub.agent() as agent:
            if era == "legacy":
                await agent.initialize(capabilities=able)
                error = (await ask(agent))["error"]
                assert error["code"] == -32042 and "mcphub login far" in error["message"]
                [asked] = error["data"]["elicitations"]
            else:
                result = (await ask(agent))["result"]
                assert result["resultType"] == "input_required"
                [(name, question)] = result["inputRequests"].items()
                asked = question["params"]
                no = (await ask(agent, inputResponses={name: {"action": "decline"}}))["result"]
                assert no["isError"] and "declined" in no["content"][0]["text"]
                yes = (await ask(agent, inputResponses={name: {"action": "accept"}}))["result"]
                assert yes["isError"] and "Nobody has signed in" in yes["content"][0]["text"]
            assert asked["mode"] == "url" and "[far]" in asked["message"]
            page = asked["url"]
            assert page.startswith("http://127.0.0.1:")
            status, headers, text = await browse(page)
            assert status == 200 and f"127.0.0.1:{w.server.port}" in text
            cookie = headers["Set-Cookie"].partition(";")[0]
            status, headers, _ = await browse(page + "/go", follow=False, headers={"Cookie": cookie})
            assert status == 303
            assert (await browse(headers["Location"]))[0] == 200
            if era == "legacy":
                told = await agent.notification("notifications/elicitation/complete")
                assert told["params"] == {"elicitationId": asked["elicitationId"]}
            else:
                await w.hub.until_state("far")
            more = {"inputResponses": {name: {"action": "accept"}}} if era == "modern" else {}
            assert not (await ask(agent, **more))["result"].get("isError")
            assert await w.leaks() == []


async def test_a_call_that_needs_more() -> None:
    """C093, C118: a connected server that wants another scope for one call keeps its state, and the row says what is
    missing; an agent that can show pages gets one, and all others the words; after the sign-in the call works."""
    async with world() as w:
        await w.hub.until_state("far", state="needs-auth")
        w.guarded.scopes["tools/call"] = "write"
        login = await w.begin("far", "--no-browser", "--json")
        await browse((await login.report("waiting"))["url"])
        await login.report("done")
        assert await login.end() == 0
        await w.hub.until_state("far")
        async with await w.hub.agent() as unable, await w.hub.agent() as able:
            await unable.initialize()
            await able.initialize(capabilities={"elicitation": {"url": {}}})
            told = (await unable.call("mcp__far__echo"))["result"]
            assert told["isError"] and "mcphub login far" in told["content"][0]["text"]
            row = await w.hub.server("far")
            assert row["state"] == "connected"
            assert (row["sign_in"]["reason"], row["sign_in"]["scopes"]) == ("insufficient_scope", ["write"])
            assert (await w.run("status", "far"))[1].count("mcphub login far") >= 1
            error = (await able.call("mcp__far__echo"))["error"]
            assert error["code"] == -32042
            page = error["data"]["elicitations"][0]["url"]
            _, headers, _ = await browse(page)
            cookie = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
            _, headers, _ = await browse(page + "/go", follow=False, headers=cookie)
            assert "scope=write" in headers["Location"]
            assert (await browse(headers["Location"]))[0] == 200
            await w.hub.until(lambda report: "sign_in" not in report["servers"][0])
            assert not (await able.call("mcp__far__echo"))["result"].get("isError")
        assert await w.leaks() == []
