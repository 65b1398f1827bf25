"""What remote servers do in the field, from an agent's end: the daemon, real sockets, and what its rows say."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.test_http_upstream import attached, entry
from tests.fakes.agent import Agent, text
from tests.fakes.certificates import Authority
from tests.fakes.hub import Fake, Place, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import (
    Answer,
    Reply,
    Request,
    RudeHttp,
    body,
    comment,
    empty,
    encoded,
    event,
    redirect,
    stream,
)

pytestmark = pytest.mark.anyio

PAGE = b"<html><title>Sign in</title>\x1b[2J" + b"x" * 500 + b"</html>"


@asynccontextmanager
async def many(servers: dict[str, RudeHttp]) -> AsyncIterator[dict[str, RudeHttp]]:
    async with AsyncExitStack() as stack:
        for server in servers.values():
            await stack.enter_async_context(server)
        yield servers


def legacy() -> RudeHttp:
    return RudeHttp(OrdinaryMcp(era="legacy"))


async def echo(agent: Agent, server: str) -> str:
    return text(await agent.call(f"mcp__{server}__echo", {"text": f"of {server}"}))


async def test_the_stream_that_a_server_does_not_have() -> None:
    """C062: whatever the optional GET is answered with, the server is connected and used, is not asked again in that
    session, and nothing is said of it."""
    codes = [405, 404, 400, 406, 501, 500, 401, 403]
    async with many({f"s{code}": legacy() for code in codes}) as servers:
        for code in codes:
            servers[f"s{code}"].on("GET", empty(code), times=None)
        async with running({n: entry(s.url, "legacy") for n, s in servers.items()}) as hub, attached(hub) as agent:
            await hub.until_state(*servers)
            for name, server in servers.items():
                assert await echo(agent, name) == f"of {name}"
                await server.until(lambda s=server: len(s.sent("GET")) == len(s.sent("initialize")))  # type: ignore[misc]
                assert await echo(agent, name) == f"of {name}"
            report = await hub.status()
            for name, server in servers.items():
                found = row(report, name)
                assert (found["state"], found["last_error"], found["counters"]) == ("connected", None, {})
                assert len(server.sent("GET")) == len(server.sent("initialize"))
            assert "reconnect" not in hub.stderr()


async def test_content_types_of_a_list() -> None:
    """C064: a list counts whatever it is called; a page is told with its status, its type and its beginning, escaped
    and cut, and what it may be. The right Accept is always sent."""
    kinds: dict[str, str | None] = {
        "json": "application/json; charset=utf-8",
        "events": "Text/Event-Stream;charset=UTF-8",
        "none": None,
        "plain": "text/plain",
        "page": "text/html",
    }

    def listing(kind: str | None) -> Answer:
        def answer(request: Request) -> Reply:
            if kind == "text/html":
                return body(PAGE, kind)
            result = request.result({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            return body(event(result), kind) if kind and "Event" in kind else body(b" \r\n" + result, kind)

        return answer

    async with many({name: legacy() for name in kinds}) as servers:
        for name, kind in kinds.items():
            servers[name].on("tools/list", listing(kind), times=None)
        settings = "[connect]\nattempts = 1\n"
        async with running({n: entry(s.url) for n, s in servers.items()}, settings=settings) as hub:
            report = await hub.until_state(*(name for name in kinds if name != "page"))
            report = await hub.until(lambda r: row(r, "page")["last_error"] is not None)
            said = row(report, "page")["last_error"]["message"]
            for word in ("HTTP 200", "text/html", "sign-in page", "proxy", "\\x1b[2J"):
                assert word in said
            assert len(said) < 500
            for name in kinds:
                [request] = servers[name].sent("tools/list")[:1]
                assert request.header("Accept") == "application/json, text/event-stream"
                assert name == "page" or row(report, name)["tools"] == 1
            logs = (await hub.control("GET", "/v1/logs/none"))[1]["lines"]
            assert any("answers tools/list with JSON as" in line for line in logs)


async def test_redirects() -> None:
    """C071: 307 and 308 within the origin are followed with method, body and headers; everything else ends with the
    place it led to, which gets no request."""
    async with RudeHttp(OrdinaryMcp(era="modern"), path="/elsewhere") as other:
        away = other.url.replace("127.0.0.1", "localhost") + "?token=s3cret"
        answers = {
            "slash": redirect(308, "/mcp/"),
            "moved": redirect(307, "/mcp/"),
            "host": redirect(307, away),
            "login": redirect(302, "/login"),
            "other": redirect(303, "/mcp/"),
            "loop": redirect(307, "/mcp"),
        }
        servers = {name: RudeHttp(OrdinaryMcp(era="modern")) for name in answers}
        async with many(servers):
            for name, answer in answers.items():
                servers[name].on("server/discover", answer, times=1 if name in ("slash", "moved") else None)
                if name not in ("slash", "moved"):
                    servers[name].on("initialize", answer, times=None)
            entries = {n: entry(s.url, headers={"X-Api-Key": "s3cret"}) for n, s in servers.items()}
            async with running(entries) as hub, attached(hub) as agent:
                await hub.until_state("slash", "moved")
                assert await echo(agent, "slash") == "of slash"
                report = await hub.until_state("host", "login", "other", "loop", state="failed")
                for name, place in (("host", f"http://localhost:{other.port}"), ("login", servers["login"].origin)):
                    said = row(report, name)["last_error"]["message"]
                    assert f"redirected to {place}" in said
                    assert "sign-in page" in said
                    assert "s3cret" not in said
                assert other.connections == 0
                assert len(servers["loop"].requests) <= 2 * 6
                [first, second] = servers["slash"].sent("server/discover")
                assert (second.method, second.path, second.body) == ("POST", "/mcp/", first.body)
                assert second.header("X-Api-Key") == "s3cret"
                assert servers["slash"].sent("tools/list")[0].path == "/mcp/"


async def test_a_proxy() -> None:
    """C073: every request to a server elsewhere takes the proxy of the environment, whatever its kind; the loopback is
    reached without it; what NO_PROXY says in vain is noted; the proxy's password is nowhere."""
    mcp = OrdinaryMcp(era="legacy", standing=True)
    async with RudeHttp(mcp) as proxy, legacy() as near:
        env = {
            "http_proxy": f"http://us:s3cret-pw@127.0.0.1:{proxy.port}",
            "NO_PROXY": "localhost,127.0.0.1,::1,10.0.0.0/8,.corp.example,10.0.0.0/99,*.x*",
        }
        servers = {"far": entry("http://m.example/mcp", "legacy"), "near": entry(near.url, "legacy")}
        async with running(servers, env=env) as hub, attached(hub) as agent:
            await hub.until_state("far", "near")
            assert await echo(agent, "far") == "of far"
            assert await echo(agent, "near") == "of near"
            await proxy.until(lambda: proxy.sent("GET"))
            logs = (await hub.control("GET", "/v1/logs/far"))[1]["lines"]
            assert len({line for line in logs if "NO_PROXY" in line}) == 2
            report = await hub.status()
            assert "s3cret" not in repr(report) + repr(logs)
        await proxy.until(lambda: proxy.sent("DELETE"))
        assert {request.method for request in proxy.requests} == {"POST", "GET", "DELETE"}
        assert {request.target for request in proxy.requests} == {"http://m.example/mcp"}
        assert {request.header("Host") for request in proxy.requests} == {"m.example"}
        assert all(request.header("Proxy-Authorization") for request in proxy.requests)
        assert {request.target for request in near.requests} == {"/mcp"}
        assert "s3cret" not in hub.stderr()


async def test_a_private_authority(place: Place, tmp_path: Path) -> None:
    """C074: with its certificate named in the hub's environment a server behind it is used, and the programs that the
    hub starts get the variable; without it, expired or of another name, the row says issuer, subject and what to do."""
    authority = Authority.made(tmp_path)
    tls = {"good": ("127.0.0.1", 1), "old": ("127.0.0.1", 5), "other": ("other.example", 1)}
    servers = {
        name: RudeHttp(OrdinaryMcp(era="modern"), tls=authority.server(host, ago=ago))
        for name, (host, ago) in tls.items()
    }
    reasons = {"good": "unable to get local issuer", "old": "expired", "other": "IP address mismatch"}
    async with many(servers):
        entries: dict[str, Any] = {name: entry(server.url) for name, server in servers.items()}
        tool = {"name": "env", "inputSchema": {}, "actions": [{"env": ["SSL_CERT_FILE"]}]}
        entries["program"] = Fake({"tools": [tool]})
        for trusted in (True, False):
            env = {"SSL_CERT_FILE": str(authority.path)} if trusted else {}
            bad = ("old", "other") if trusted else ("good", "old", "other")
            async with running(entries, place=place, env=env) as hub, attached(hub) as agent:
                await hub.until_state("program")
                report = await hub.until_state(*bad, state="failed")
                for name in bad:
                    error = row(report, name)["last_error"]
                    assert "issuer: CN=A Private Authority; subject: CN=A Server" in error["message"]
                    assert not trusted or reasons[name] in error["message"]
                    assert "SSL_CERT_FILE" in error["remedy"]
                    assert servers[name].requests == [] or name == "good"
                if trusted:
                    await hub.until_state("good")
                    assert await echo(agent, "good") == "of good"
                    assert str(authority.path) in text(await agent.call("mcp__program__env"))
                else:
                    assert reasons["good"] in row(report, "good")["last_error"]["message"]


async def test_too_many_requests() -> None:
    """C075: what is refused before anything was done is sent again after the stated time, in seconds or as a date, or
    after a while; an hour is told now; a time that no caller would see the end of, too."""
    names = ["seconds", "date", "unsaid", "call", "hour", "late"]
    async with many({name: legacy() for name in names}) as servers:

        def in_two_seconds(request: Request) -> Reply:
            return empty(429, ("Retry-After", formatdate(time.time_ns() // 10**9 + 2, usegmt=True)))

        servers["seconds"].on("tools/list", empty(429, ("Retry-After", "2")))
        servers["date"].on("tools/list", in_two_seconds)
        servers["unsaid"].on("tools/list", empty(429))
        entries = {n: entry(s.url, "legacy") for n, s in servers.items()}
        entries["late"]["timeout"] = 2000
        async with running(entries) as hub, attached(hub) as agent:
            report = await hub.until_state(*names)
            for name, least in (("seconds", 2.0), ("date", 0.9), ("unsaid", 0.9)):
                first, second = servers[name].sent("tools/list")
                assert least <= second.at - first.at < 8.0
                assert row(report, name)["last_error"] is None
            servers["call"].on("tools/call", empty(429, ("Retry-After", "1")))
            assert await echo(agent, "call") == "of call"
            servers["hour"].on("tools/call", empty(429, ("Retry-After", "3600")), times=None)
            servers["late"].on("tools/call", empty(429, ("Retry-After", "5")), times=None)
            with anyio.fail_after(10):
                for name, after in (("hour", "3600"), ("late", "5")):
                    answer = await agent.call(f"mcp__{name}__echo", {"text": "x"})
                    assert answer["result"]["isError"] is True
                    assert f"retry after {after} s" in text(answer)
            assert {name: len(server.sent("tools/call")) for name, server in servers.items()} == {
                "seconds": 0, "date": 0, "unsaid": 0, "call": 2, "hour": 1, "late": 1,
            }  # fmt: skip


async def test_a_server_in_trouble_while_it_starts() -> None:
    """C075: 503 at its start is pending, for the stated time at least, and then connected."""
    async with legacy() as server:
        server.on("initialize", empty(503, ("Retry-After", "1")))
        async with running({"far": entry(server.url, "legacy")}) as hub:
            report = await hub.until(lambda r: row(r, "far")["last_error"] is not None)
            assert row(report, "far")["state"] == "pending"
            assert "503" in row(report, "far")["reason"]
            await hub.until_state("far")
            first, second = server.sent("initialize")
            assert second.at - first.at >= 1.0


async def test_slow_answers() -> None:
    """C077: a call may take the time that its entry allows, whether its answer is plain, or comments come before it;
    the session's own stream stays open in silence; a call that its entry allows less is ended alone."""
    mcp = OrdinaryMcp(era="legacy", standing=True)
    async with RudeHttp(mcp) as server, RudeHttp(OrdinaryMcp(era="legacy")) as brief:
        servers = {
            "far": entry(server.url, "legacy", timeout=600_000),
            "brief": entry(brief.url, "legacy", timeout=1000),
        }
        async with running(servers) as hub, attached(hub) as agent:
            await hub.until_state(*servers)
            await server.until(lambda: mcp.feeds)
            done = {"content": [{"type": "text", "text": "done"}]}
            server.on("tools/call", lambda r: body(r.result(done)).after(2.5))
            server.on("tools/call", lambda r: stream(comment(), 1.2, comment(), 1.3, event(r.result(done))))
            brief.on("tools/call", lambda r: body(r.result(done)).after(8.0))
            brief.on("tools/call", lambda r: body(r.result(done)))
            calls = [await agent.start("tools/call", {"name": "mcp__far__echo"}) for _ in range(2)]
            late = await agent.start("tools/call", {"name": "mcp__brief__echo"})
            error = (await agent.response(late))["error"]
            assert "within 1 s" in error["message"]
            assert text(await agent.call("mcp__brief__echo")) == "done"
            for mid in calls:
                assert text(await agent.response(mid)) == "done"
            assert not any(request.left for request in server.sent("GET"))
            assert len(server.sent("GET")) == len(server.sent("initialize"))


async def test_what_the_row_says_after_calls_that_failed(tmp_path: Path) -> None:
    """C086, C116, C073, one daemon: a server of the older era that is gone is not `connected` after the third call that
    found nothing, though agents' calls go over sessions of their own; one that refuses what its helper prints says so
    as long as it does; a proxy that wants a password is named, with what to do."""
    gone, mcp, token, valid = legacy(), OrdinaryMcp(era="legacy"), tmp_path / "token", ["good"]
    token.write_text("good")

    def guarded(request: Request) -> Reply:
        return mcp(request) if request.header("X-Key") in valid else empty(401)

    helper = f"{sys.executable} -I -S -c 'import json; print(json.dumps({{\"X-Key\": open(\"{token}\").read()}}))'"
    async with (
        gone,
        RudeHttp(guarded) as kept,
        RudeHttp(lambda request: empty(407)) as proxy,
    ):
        servers = {
            "gone": entry(gone.url, "legacy"),
            "kept": {**entry(kept.url, "legacy"), "headersHelper": helper},
            "far": entry("http://m.example/mcp"),
        }
        env = {"HTTP_PROXY": f"http://us:s3cret-pw@127.0.0.1:{proxy.port}"}
        async with running(servers, env=env) as hub, attached(hub) as agent:
            await hub.until_state("gone", "kept")
            assert (await echo(agent, "gone"), await echo(agent, "kept")) == ("of gone", "of kept")

            valid[:] = ["another"]
            token.write_text("wrong")
            for _ in range(3):
                assert "headersHelper" in await echo(agent, "kept")
            found = row(await hub.status(), "kept")
            assert (found["state"], found["layer"]) == ("connected", "sign-in")
            assert found["reason"].startswith("it refuses the credentials that headersHelper printed (HTTP 401")
            _, why = await hub.control("GET", "/v1/why/kept")
            assert "headersHelper" in why["answer"]
            valid[:] = ["wrong"]
            assert await echo(agent, "kept") == "of kept"
            found = row(await hub.status(), "kept")
            assert (found["state"], found["reason"], found["layer"]) == ("connected", "", "")

            await gone.__aexit__(None, None, None)
            for _ in range(3):
                assert row(await hub.status(), "gone")["state"] == "connected"
                assert "nothing listens at" in await echo(agent, "gone")
            found = row(await hub.until(lambda report: row(report, "gone")["state"] != "connected"), "gone")
            assert "nothing listens at" in repr(found["last_error"])

            said = row(await hub.status(), "far")["last_error"]["message"]
            assert f"the proxy 127.0.0.1:{proxy.port} of HTTP_PROXY refuses: 407 Proxy Authentication Required" in said
            assert "s3cret" not in repr(await hub.status()) + hub.stderr()


async def test_signs_of_a_sign_in() -> None:
    """C093: a 401 without a challenge needs a sign-in where there is one, else a header, and the row says which; where
    the entry has credentials it is they that were refused, and no sign-in is looked for; a 401 to one call fails that
    call with the reason, is counted, and leaves the server connected for others. No browser is opened."""
    body_401 = body(b'{"error":"unauthorized"}', status=401)
    servers = {name: RudeHttp(OrdinaryMcp(era="legacy")) for name in ("oauth", "plain", "key", "partly")}

    def metadata(request: Request) -> Reply:
        if request.path != "/.well-known/oauth-protected-resource":
            return empty(404)
        server = servers["oauth"]
        return body(encoded({"resource": server.url, "authorization_servers": ["https://as.example/t1"]}))

    async with many(servers):
        servers["oauth"].on("GET", metadata, times=None)
        servers["plain"].on("GET", empty(404), times=None)
        for name in ("oauth", "plain", "key"):
            servers[name].on("server/discover", body_401, times=None)
            servers[name].on("initialize", body_401, times=None)
        entries = {name: entry(server.url) for name, server in servers.items()}
        entries["key"]["headers"] = {"Authorization": "Bearer s3cret-token"}
        async with running(entries) as hub, attached(hub) as agent:
            await hub.until_state("partly")
            report = await hub.until_state("oauth", "plain", "key", state="needs-auth")
            assert "needs a sign-in" in row(report, "oauth")["reason"]
            assert "sign-in at https://as.example" in row(report, "oauth")["reason"]
            for word in ("401", "offers no sign-in", "no OAuth metadata", "set a header"):
                assert word in row(report, "plain")["reason"]
            assert {request.path for request in servers["key"].requests} == {"/mcp"}
            assert "refuses the credentials of its entry" in row(report, "key")["reason"]
            servers["partly"].on("tools/call", body_401)
            refused = await agent.call("mcp__partly__echo", {"text": "x"})
            assert refused["result"]["isError"] is True
            assert "sign-in" in text(refused) and "401" in text(refused)
            assert await echo(agent, "partly") == "of partly"
            found = row(await hub.status(), "partly")
            assert (found["state"], found["counters"]["needs_auth"]) == ("connected", 1)
            assert "s3cret" not in repr(report) + hub.stderr()
            assert [one for one in hub.place.processes() if "xdg-open" in " ".join(one.cmdline())] == []
