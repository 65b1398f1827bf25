"""How requests of signing in travel, over real sockets: to allowed places, without redirects, within limits."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.auth import sending
from mcphub.auth.flow import Answered, Ask, Reply, Unanswered, get, post_form
from mcphub.auth.records import Account
from mcphub.auth.sending import HttpSender
from mcphub.outbound import dial as dial_module
from mcphub.outbound import lookup as lookup_module
from mcphub.spec import OAuthSpec
from tests.auth.transcript import account
from tests.fakes.certificates import Authority
from tests.fakes.rude_http import CLOSE, NEVER, RESET, RudeHttp, body, empty, raw, redirect, slowly, streamed
from tests.fakes.rude_http import Reply as Served

pytestmark = pytest.mark.anyio
REAL = lookup_module.look_up
FAR = account("https://m.example/mcp")


def near(server: RudeHttp) -> Account:
    """An MCP server on this machine, which may be signed in to on this machine."""
    return account(server.url)


async def send(one: Account, ask: Ask, env: Mapping[str, str] | None = None) -> Reply:
    with anyio.fail_after(20):
        return await HttpSender(one, lambda: env or {})(ask)


async def asked(served: Served, **more: Any) -> tuple[Reply, RudeHttp]:
    async with RudeHttp(lambda _: served) as server:
        return await send(near(server), get("server metadata", server.url), **more), server


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names stand for, in place of the system's resolver."""
    known = {"localhost": ["127.0.0.1", "::1"], "m.example": ["93.184.216.34"]}

    async def look_up(host: str, port: int | None = None) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port or 0))
            for one in known[host]
        ]

    monkeypatch.setattr(dial_module, "look_up", look_up)
    monkeypatch.setattr(lookup_module, "look_up", look_up)
    return known


# -- what is sent and what comes back


async def test_a_form_and_its_answer() -> None:
    """Headers and body as they are, no cookie, no credentials of anybody's; of the answer what somebody reads."""
    served = body(b'{"a":1}', headers=[("DPoP-Nonce", "n"), ("Retry-After", "3"), ("Set-Cookie", "x=y"), ("X", "y")])
    async with RudeHttp(lambda _: served) as server:
        for _ in range(2):
            found = await send(near(server), post_form("token", server.url, {"a": "b c"}, ("DPoP", "proof")))
        assert server.connections == 2  # none brings anything from another one
        for request in server.requests:
            assert (request.method, request.body) == ("POST", b"a=b+c")
            assert request.header("DPoP") == "proof" and request.header("Accept") == "application/json"
            assert request.header("Content-Type") == "application/x-www-form-urlencoded"
            assert request.header("Cookie") is None and request.header("Authorization") is None
            assert (request.header("User-Agent") or "").startswith("mcphub/")
    assert isinstance(found, Answered) and (found.status, found.body) == (200, b'{"a":1}')
    assert found.headers == {"content-type": "application/json", "dpop-nonce": "n", "retry-after": "3"}


@pytest.mark.parametrize("status", [200, 201, 204, 400, 401, 403, 404, 429, 500, 503])
async def test_any_status_is_an_answer(status: int) -> None:
    """What follows from it is not this module's to say."""
    found, _ = await asked(empty(status))
    assert found == Answered(status, b"", found.headers if isinstance(found, Answered) else {})


# -- S4


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    """B87, S4, C114: neither to another host nor on the same one; the message says where it leads."""
    async with RudeHttp(lambda _: empty(200)) as other:
        async with RudeHttp(lambda _: redirect(status, other.url)) as server:
            found = await send(near(server), post_form("token", server.url, {"a": "s3cret"}))
            assert isinstance(found, Unanswered) and found.kind == "redirect" and other.origin in found.detail
            assert "s3cret" not in found.detail and len(server.requests) == 1
        assert other.requests == []
    found, server = await asked(redirect(status, "/elsewhere"))
    assert isinstance(found, Unanswered) and found.kind == "redirect" and len(server.requests) == 1


# -- S10


@pytest.mark.parametrize(
    "served",
    [
        body(b"x" * (sending.MOST + 1)),
        streamed(b"x" * 4096 for _ in iter(int, 1)),
        body(gzip.compress(b"\0" * (64 << 20)), headers=[("Content-Encoding", "gzip")]),
    ],
)
async def test_answers_that_are_too_large(served: Served) -> None:
    """S10: 256 KiB are read, whatever the length says, and however it was packed; nothing is taken of the rest."""
    found, _ = await asked(served)
    assert isinstance(found, Unanswered) and found.kind == "too_large" and "256 KiB" in found.detail


async def test_the_largest_answer() -> None:
    """S10: that many are an answer."""
    found, _ = await asked(body(b"x" * sending.MOST))
    assert isinstance(found, Answered) and len(found.body) == sending.MOST


@pytest.mark.parametrize(
    "served", [body(b"x").after(NEVER), raw(NEVER), raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", NEVER)]
)
async def test_answers_that_do_not_come(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10: each has its time, and the server may have acted."""
    monkeypatch.setattr(sending, "BEGIN", 0.3)
    monkeypatch.setattr(sending, "WHOLE", 0.6)
    found, _ = await asked(served)
    assert isinstance(found, Unanswered) and found.kind == "timeout" and found.sent


async def test_an_answer_sign_by_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """S10: the whole has its time too, however busy the server seems."""
    monkeypatch.setattr(sending, "WHOLE", 0.5)
    found, _ = await asked(streamed(slowly(b"x" * 1000, 1, 0.05)))
    assert isinstance(found, Unanswered) and found.kind == "timeout" and found.sent


@pytest.mark.parametrize(
    "served",
    [
        raw(CLOSE),
        raw(RESET),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", CLOSE),
        raw(b"SSH-2.0-x\r\n", CLOSE),
        body(b"no gzip", headers=[("Content-Encoding", "gzip")]),
    ],
)
async def test_answers_that_break_off(served: Served) -> None:
    """The server may have acted: that decides whether a refresh token may be dead."""
    found, _ = await asked(served)
    assert isinstance(found, Unanswered) and found.kind == "lost" and found.sent


async def test_nobody_is_there() -> None:
    """Then the server has not acted."""
    async with RudeHttp(lambda _: empty(200)) as server:
        one, url = near(server), server.url
    found = await send(one, get("keys", url))
    assert isinstance(found, Unanswered) and (found.kind, found.sent) == ("unreachable", False)


async def test_a_certificate_that_nobody_knows(tmp_path: Path) -> None:
    """C074: nothing is sent; with the authority of the hub's environment it is (C074: for OAuth too)."""
    authority = Authority.made(tmp_path)
    async with RudeHttp(lambda _: empty(200), tls=authority.server("127.0.0.1")) as server:
        found = await send(near(server), get("keys", server.url))
        assert isinstance(found, Unanswered) and (found.kind, found.sent) == ("tls", False)
        assert server.requests == []
        found = await send(near(server), get("keys", server.url), {"SSL_CERT_FILE": str(authority.path)})
        assert isinstance(found, Answered)


# -- S1, S2, S3


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "0x7f000001",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "[fe80::1]",
        "10.0.0.5",
        "192.168.1.1",
        "100.64.0.1",
        "[fd00::1]",
        "224.0.0.1",
        "255.255.255.255",
    ],
)
async def test_places_that_no_server_may_name(host: str, tmp_path: Path) -> None:
    """B87, S3, C114: for a server elsewhere neither this machine nor any network of one's own is asked, however it is
    written, nor behind a proxy."""
    authority = Authority.made(tmp_path)
    async with RudeHttp(lambda _: empty(200), tls=authority.server("127.0.0.1", "localhost")) as server:
        ask = get("server metadata", f"https://{host}:{server.port}/x")
        for env in ({}, {"HTTPS_PROXY": f"http://127.0.0.1:{server.port}"}):
            with anyio.fail_after(5):
                found = await send(FAR, ask, {"SSL_CERT_FILE": str(authority.path), **env})
            assert isinstance(found, Unanswered) and (found.kind, found.sent) == ("unsafe", False), found
        assert server.connections == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "http://m.example/", "https://u:p@m.example/", "file:///", ""])
async def test_urls_that_are_not_asked(url: str) -> None:
    """B87, S1, S2: the last look is here, wherever the URL came from."""
    found = await send(FAR, get("keys", url))
    assert isinstance(found, Unanswered) and found.kind == "unsafe" and "p@" not in found.detail


async def test_a_name_that_leads_to_several_places(names: dict[str, list[str]]) -> None:
    """S3: every address counts; one that is public does not hide one that is not, nor does it help to change the order
    from one time to the next."""
    async with RudeHttp(lambda _: empty(200)) as server:
        for places in (["127.0.0.1", "93.184.216.34"], ["93.184.216.34", "127.0.0.1"], ["93.184.216.34", "::1"]):
            names["as.example"] = places
            found = await send(FAR, get("server metadata", f"https://as.example:{server.port}/x"))
            assert isinstance(found, Unanswered) and found.kind == "unsafe" and "as.example leads to" in found.detail
        assert server.connections == 0


@pytest.mark.parametrize(
    ("mine", "theirs", "oauth", "kind"),
    [
        (["10.1.2.3"], ["10.9.9.9"], OAuthSpec(), "private"),
        (["10.1.2.3", "10.3.2.1"], ["10.9.9.9"], OAuthSpec(), "private"),
        (["10.1.2.3", "192.168.1.1"], ["192.168.9.9"], OAuthSpec(), "private"),
        (["10.1.2.3"], ["192.168.9.9"], OAuthSpec(), "unsafe"),
        (["10.1.2.3"], ["100.64.0.1"], OAuthSpec(), "unsafe"),
        (["93.184.216.34", "10.1.2.3"], ["10.9.9.9"], OAuthSpec(), "unsafe"),
        (["10.1.2.3", "93.184.216.34"], ["10.1.2.3"], OAuthSpec(), "unsafe"),
        (["10.1.2.3", "127.0.0.1"], ["10.9.9.9"], OAuthSpec(), "unsafe"),
        (["93.184.216.34"], ["10.9.9.9"], OAuthSpec(), "unsafe"),
        ([], ["10.9.9.9"], OAuthSpec(), "unsafe"),
        (["127.0.0.1"], ["127.0.0.1"], OAuthSpec(), "unsafe"),
        (["10.1.2.3"], ["169.254.169.254"], OAuthSpec(), "unsafe"),
        (["93.184.216.34"], ["10.9.9.9"], OAuthSpec(hosts=("AS.example",)), "private"),
        (["93.184.216.34"], ["0.0.0.0"], OAuthSpec(hosts=("as.example",)), "unsafe"),
    ],
)
async def test_who_may_be_in_a_network_of_ones_own(
    mine: list[str], theirs: list[str], oauth: OAuthSpec, kind: str, names: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """S3: who signs in to a server that is in one itself, or whom the entry names; this machine only by its very
    name."""
    names["as.example"] = theirs
    names["m.example"] = mine
    if not mine:
        del names["m.example"]
    dialled: list[str] = []

    async def connected(place: Any) -> socket.socket:
        dialled.append(place[3][0])
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(dial_module, "_connected", connected)
    found = await send(account("https://m.example/mcp", oauth), get("keys", "https://as.example/x"))
    assert isinstance(found, Unanswered)
    assert (found.kind, dialled) == (("unreachable", theirs) if kind == "private" else ("unsafe", []))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://10.9.9.9/token", "10.9.9.9 leads to 10.9.9.9, a private address"),
        ("https://127.0.0.1/token", "a loopback address"),
        ("https://[::1]/token", "a loopback address"),
        ("https://localhost/token", "a loopback address"),
        ("https://as.example/token", "as.example leads to 192.168.0.1"),
        ("http://as.example/token", "is plain http"),
        ("https://unknown.example/token", ""),
        ("https://93.184.216.34/token", ""),
        ("https://m.example/token", ""),
    ],
)
async def test_what_is_judged_before_anything_is_sent(url: str, why: str, names: dict[str, list[str]]) -> None:
    """S3: an address as it stands there, and a name by where it leads now; what is not known is not refused. Behind a
    proxy names are looked up there."""
    names["as.example"] = ["93.184.216.34", "192.168.0.1"]
    found = await HttpSender(FAR, dict).forbidden(url)
    assert why in found and bool(found) == bool(why)
    behind = await HttpSender(FAR, lambda: {"HTTPS_PROXY": "http://proxy.example:3128"}).forbidden(url)
    assert behind == ("" if "as.example leads" in why else found)


async def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: what was judged is what is connected to: another answer a moment later changes nothing."""
    dialled: list[str] = []

    async def rebinding(host: str, port: int | None = None) -> list[Any]:
        where = "93.184.216.34" if not dialled else "127.0.0.1"
        dialled.append("looked up")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (where, port))]

    async def connected(place: Any) -> socket.socket:
        dialled.append(place[3][0])
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(dial_module, "look_up", rebinding)
    monkeypatch.setattr(dial_module, "_connected", connected)
    await send(FAR, get("keys", "https://as.example/x"))
    assert dialled == ["looked up", "93.184.216.34"]


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example", ".example", "xn--a.example", "-.example", "a_"])
async def test_hosts_that_are_no_names(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a server names: an answer that is none, never an exception."""

    def nobody(name: str, port: object, *args: object, **more: object) -> object:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    monkeypatch.setattr(dial_module, "look_up", REAL)
    found = await send(FAR, get("keys", f"https://{host}/x"))
    assert isinstance(found, Unanswered) and found.kind in ("unreachable", "unsafe") and not found.sent


# -- proxies


async def test_a_proxy() -> None:
    """C073: every request of signing in takes the way that the hub's environment says; the proxy itself may be in any
    network, and it looks the name up."""
    async with RudeHttp(lambda _: empty(407)) as proxy:
        env = {"HTTPS_PROXY": f"http://u:s3cret@127.0.0.1:{proxy.port}"}
        for one in (get("server metadata", "https://as.example/x"), post_form("token", "https://as.example/t", {})):
            found = await send(FAR, one, env)
            assert isinstance(found, Unanswered) and found.kind == "unreachable" and "407" in found.detail
            assert "s3cret" not in found.detail
        assert {(request.method, request.target) for request in proxy.requests} == {("CONNECT", "as.example:443")}


async def test_this_machine_needs_no_proxy() -> None:
    """C073: it is asked directly."""
    async with RudeHttp(lambda _: empty(200)) as server:
        found = await send(near(server), get("keys", server.url), {"HTTP_PROXY": "http://127.0.0.1:1"})
    assert isinstance(found, Answered)
