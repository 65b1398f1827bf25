"""How a server is opened after what its attempts came to, as a table of transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.connection.backoff import Backoff
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.machine import Asked
from mcphub.connection.opening import Opening, pinned
from mcphub.protocol import era
from mcphub.spec import HttpSpec, InProcessSpec, Origin, Scope, Secret, ServerSpec, SseSpec, StdioSpec, WsSpec
from mcphub.transport.link import Surroundings
from tests.connection.workers import Bench, remote, working
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import CLOSE, RudeHttp, body, empty, raw

TRANSPORTS: dict[str, Any] = {
    "stdio": StdioSpec("x"),
    "http": HttpSpec(Secret("http://h/"), {}, "http://h/"),
    "sse": SseSpec(Secret("http://h/"), {}, "http://h/"),
    "ws": WsSpec(Secret("ws://h/"), {}, "ws://h/"),
    "in-process": InProcessSpec("x"),
}


def spec(kind: str, pin: str = "auto") -> ServerSpec:
    return ServerSpec("s", Origin(Scope.USER, "/mcp.json", "s"), TRANSPORTS[kind], era=pin)


def fault(kind: FaultKind = FaultKind.HTTP_STATUS, phase: str = "handshake", message: str = "m") -> Fault:
    return Fault(kind, phase, message)


@pytest.mark.parametrize(("said", "pin"), [("auto", None), ("legacy", "legacy"), ("modern", "modern")])
def test_a_pinned_era(said: str, pin: str | None) -> None:
    """What the entry wants is what is tried; anything else is found out."""
    assert pinned(spec("stdio", said)) == pin


@pytest.mark.parametrize(
    ("kind", "pin", "remembered", "first", "final"),
    [
        ("stdio", "auto", None, None, False),
        ("stdio", "auto", "legacy", "legacy", False),
        ("stdio", "legacy", None, "legacy", True),
        ("stdio", "modern", "modern", "modern", True),
        ("http", "auto", None, None, True),
        ("http", "auto", "modern", "modern", False),
        ("http", "legacy", "legacy", "legacy", True),
        ("sse", "auto", None, None, True),
        ("ws", "auto", None, None, False),
        ("ws", "legacy", None, "legacy", True),
        ("in-process", "auto", None, None, False),
    ],
)
def test_the_probe_of_an_attempt(kind: str, pin: str, remembered: Any, first: str | None, final: bool) -> None:
    """A pinned era is final; where nothing locks a process, a second start helps only against a wrong memory."""
    opening = Opening(spec(kind, pin))
    if remembered is not None:
        opening.opened(remembered)
    assert opening.probe() == era.Probe(first=first, restarted=final)  # type: ignore[arg-type]
    assert opening.by == kind and not opening.stands_in


def test_an_older_server() -> None:
    """C082, B20: HTTP+SSE is tried once where Streamable HTTP finds nothing to post to; remembered once it works."""
    opening = Opening(spec("http"))
    again = opening.after(fault(), older=True, probe=opening.probe(), first=True)
    assert again == era.Probe(first="legacy", restarted=True)
    assert opening.begin_again(again) == "in the legacy era, by HTTP+SSE"
    assert (opening.by, opening.stands_in) == ("sse", True)
    assert opening.after(fault(), older=True, probe=again, first=True) is None, "once"
    opening.opened("legacy")
    assert not opening.sessions_beside("legacy")
    assert opening.failed(fault(FaultKind.LOST, "serve")) == fault(FaultKind.LOST, "serve")
    assert (opening.by, opening.probe()) == ("sse", era.Probe(first="legacy"))


@pytest.mark.parametrize(("pin", "how"), [("auto", "from the beginning"), ("legacy", "in the legacy era")])
def test_a_memory_of_the_older_transport_that_fails(pin: str, how: str) -> None:
    """C082: the server has moved on: it is begun again at once as its entry says."""
    opening = Opening(spec("http", pin))
    opening.after(fault(), older=True, probe=opening.probe(), first=True)
    opening.opened("legacy")
    probe = opening.probe()
    assert opening.after(fault(FaultKind.NO_ANSWER), older=False, probe=probe, first=True) is None
    assert opening.after(fault(phase="list"), older=False, probe=probe, first=True) is None
    again = opening.after(fault(), older=False, probe=probe, first=True)
    assert again == era.Probe(first=pinned(spec("http", pin)), restarted=True)
    assert opening.begin_again(again) == how
    assert opening.by == "http"


@pytest.mark.parametrize(
    ("kind", "phase", "message"),
    [
        (FaultKind.HTTP_STATUS, "handshake", "new; by HTTP+SSE: old"),
        (FaultKind.NO_ANSWER, "spawn", "new; by HTTP+SSE: old"),
        (FaultKind.NEEDS_AUTH, "handshake", "old"),
        (FaultKind.LOST, "list", "old"),
    ],
)
def test_a_guess_that_fails(kind: FaultKind, phase: str, message: str) -> None:
    """C082: what either transport heard is said, unless the older one found out more; the next attempt begins anew."""
    opening = Opening(spec("http"))
    opening.after(fault(message="new"), older=True, probe=opening.probe(), first=True)
    assert opening.failed(fault(kind, phase, "old")).message == message
    assert (opening.by, opening.stands_in) == ("http", False)
    assert opening.failed(fault(message="x")).message == "x"


@pytest.mark.parametrize(
    ("kind", "phase", "probe", "first", "again"),
    [
        (FaultKind.EXITED, "handshake", era.Probe(), True, era.Probe(first="legacy", restarted=True)),
        (FaultKind.EXITED, "handshake", era.Probe(), False, None),
        (FaultKind.EXITED, "list", era.Probe(), True, None),
        (FaultKind.LOST, "handshake", era.Probe(), True, None),
        (FaultKind.EXITED, "handshake", era.Probe(first="legacy"), True, None),
        (FaultKind.EXITED, "handshake", era.Probe(restarted=True), True, None),
    ],
)
def test_a_program_that_ends_at_its_first_message(
    kind: FaultKind, phase: str, probe: era.Probe, first: bool, again: era.Probe | None
) -> None:
    """C068: it is started again in the other era, once, and only at the first attempt."""
    opening = Opening(spec("stdio"))
    assert opening.after(fault(kind, phase), older=False, probe=probe, first=first) == again


def test_the_modern_era_needs_the_newer_transport() -> None:
    """The older one carries the legacy era alone."""
    opening = Opening(spec("http"))
    opening.after(fault(), older=True, probe=opening.probe(), first=True)
    assert opening.begin_again(era.Probe(first="modern", restarted=True)) == "in the modern era"
    assert opening.by == "http"


@pytest.mark.parametrize(
    ("phase", "remembered"), [("spawn", True), ("handshake", False), ("list", False), ("serve", True)]
)
def test_what_a_fault_leaves_of_the_era(phase: str, remembered: bool) -> None:
    """B21: a handshake or list that fails may fail for the remembered era; anything else says nothing of it."""
    opening = Opening(spec("stdio"))
    opening.opened("modern")
    opening.failed(fault(FaultKind.NO_ANSWER, phase))
    assert (opening.probe().first == "modern") is remembered


@pytest.mark.parametrize(
    ("kind", "pin", "found", "possible"),
    [
        ("http", "auto", "modern", True),
        ("http", "auto", "legacy", True),
        ("http", "legacy", "legacy", True),
        ("http", "modern", "modern", False),
        ("sse", "auto", "legacy", False),
        ("stdio", "auto", "legacy", False),
    ],
)
def test_sessions_beside(kind: str, pin: str, found: Any, possible: bool) -> None:
    """Only Streamable HTTP has them, and not beside an era that the entry pins."""
    assert Opening(spec(kind, pin)).sessions_beside(found) is possible


def test_a_websocket_that_is_closed_at_the_first_message() -> None:
    """An old server may hang up at what it does not know: it is begun again in the other era, once."""
    opening = Opening(spec("ws"))
    lost = fault(FaultKind.LOST)
    probe = opening.probe()
    assert opening.after(lost, older=False, probe=probe, first=False) is None
    assert opening.after(fault(FaultKind.NEEDS_AUTH), older=False, probe=probe, first=True) is None
    assert Opening(spec("stdio")).after(lost, older=False, probe=probe, first=True) is None
    again = opening.after(lost, older=False, probe=probe, first=True)
    assert again == era.Probe(first="legacy", restarted=True)
    assert opening.after(lost, older=False, probe=again, first=True) is None


# --- over HTTP --------------------------------------------------------------------------------------------------------

AGAIN = Backoff(attempts=9, first=0.01, most=0.01)


def posted(server: RudeHttp) -> list[str]:
    """The first messages of handshakes that it was sent, and what was asked for by GET."""
    return [one.key for one in server.requests if one.key in ("server/discover", "initialize", "GET")]


@pytest.mark.anyio
@pytest.mark.parametrize("status", [429, 500, 503, "lost"])
async def test_trouble_that_says_nothing_of_the_era(around: Surroundings, status: int | str) -> None:
    """B21: no era follows from it: the server is asked from the beginning once it is well."""
    trouble = raw(CLOSE) if isinstance(status, str) else empty(status)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", trouble, times=2)
        async with working(Bench(remote(server.url), around, backoff=AGAIN)) as bench:
            await bench.connected()
            assert posted(server) == ["server/discover"] * 3
            assert bench.worker.client is not None and bench.worker.client.era == "modern"


@pytest.mark.anyio
@pytest.mark.parametrize("status", [401, 403])
async def test_who_guards_a_server_says_nothing_of_the_era(around: Surroundings, status: int) -> None:
    """B21: nothing else is sent to a server that wants a sign-in, or refuses."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", empty(status), times=None)
        async with working(Bench(remote(server.url), around, backoff=AGAIN)) as bench:
            await bench.until(lambda worker: type(worker.state).__name__ not in ("Connecting", "Waiting", "Pending"))
            assert "initialize" not in posted(server) and "server/discover" in posted(server)


@pytest.mark.anyio
async def test_an_era_that_is_known(around: Surroundings) -> None:
    """B21: the next connection sends no probe; the one after a handshake that failed does."""
    async with (
        RudeHttp(OrdinaryMcp()) as server,
        working(Bench(remote(server.url), around, backoff=AGAIN)) as bench,
    ):
        for fails, again in ((0, ["initialize"]), (1, ["initialize", "server/discover", "initialize"])):
            await bench.connected()
            before = [bench.worker.client, None]
            count = len(posted(server))
            if fails:
                server.on("initialize", empty(500))
            bench.worker.post(Asked())
            await bench.until(lambda worker: worker.client not in before)  # noqa: B023
            assert [key for key in posted(server)[count:] if key != "GET"] == again


@pytest.mark.anyio
@pytest.mark.parametrize("code", [-32020, -32021, -32022])
async def test_a_modern_refusal(around: Surroundings, code: int) -> None:
    """B20: 400 with an error of the modern era stays in it."""
    data = {"supported": ["2026-07-28"], "requested": "x", "requiredCapabilities": {}}
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", lambda request: body(request.error(code, "no", data), status=400))
        async with working(Bench(remote(server.url), around, backoff=AGAIN)) as bench:
            await bench.connected()
            assert posted(server) == ["server/discover"] * 2


@pytest.mark.anyio
@pytest.mark.parametrize("status", [404, 405])
async def test_the_ladder_down(around: Surroundings, status: int) -> None:
    """B20: an empty 400 leads to `initialize` by POST; where that finds nothing to post to, GET, and `endpoint`."""
    async with RudeHttp(OrdinaryMcp(era="sse")) as server:
        server.on("server/discover", empty(400), times=None)
        server.on("initialize", empty(status))
        async with working(Bench(remote(server.url), around, backoff=AGAIN)) as bench:
            await bench.connected()
            assert posted(server)[:4] == ["server/discover", "initialize", "GET", "initialize"]
            assert server.sent("initialize")[-1].path.startswith("/messages")
