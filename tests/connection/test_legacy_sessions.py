"""The legacy sessions of one HTTP server, with real workers and real HTTP: who gets which, what becomes of calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.connection import legacy_sessions
from mcphub.connection.backoff import Backoff
from mcphub.connection.capability_sets import NOTHING, SHARED, WITH_SAMPLING
from mcphub.connection.client import Client
from mcphub.connection.legacy_sessions import LegacySessions
from mcphub.connection.machine import IDLE, Connected, TurnedOff
from mcphub.connection.worker import Worker
from mcphub.protocol.envelope import HUB_META_MEMBER
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import HttpSpec, Origin, Scope, Secret, ServerSpec
from mcphub.transport.link import Surroundings
from mcphub.transport.stderr import StderrRing
from tests.connection.workers import Bench, surroundings, working
from tests.fakes.channel import Heard, KeptChannel
from tests.fakes.ordinary_mcp import LEGACY, META, MODERN, OrdinaryMcp
from tests.fakes.rude_http import CLOSE, NEVER, Request, RudeHttp, body, empty, encoded, event, raw, stream
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio

ELICITATION = b'{"elicitation":{}}'
SAMPLING = b'{"sampling":{}}'


@pytest.fixture
async def around() -> AsyncIterator[Surroundings]:
    async with clean(), surroundings() as around:
        yield around


def far(url: str, **more: Any) -> ServerSpec:
    return ServerSpec("far", Origin(Scope.USER, "/mcp.json", "far"), HttpSpec(Secret(url), {}, url), **more)


class Call:
    """A call of an agent, as far as connections are concerned."""

    def __init__(self) -> None:
        self.deadline = self.hard = float("inf")
        self.idle = 600.0
        self.told: list[str] = []
        self.why = ""
        self.done = anyio.Event()

    def answered(self, env: Any) -> None:
        self.told.append("error" if env.error else "answered")
        self.done.set()

    def unanswered(self, kind: str, message: str) -> None:
        self.told.append(kind)
        self.why = message
        self.done.set()

    def progressed(self, params: Any) -> None:
        pass

    def moved(self, client: Client) -> None:
        self.told.append("moved")

    def resend(self, client: Client, method: str, params: Raw) -> None:
        self.told.append("resent")
        meta = HUB_META_MEMBER if client.era == "modern" else b""
        client.send_request(self, method, bytes(params)[1:-1] + meta)

    @property
    async def outcome(self) -> list[str]:
        with anyio.fail_after(10):
            await self.done.wait()
        return self.told


def client_for(bench: Bench, declares: bytes = NOTHING, *, modern: bool = False) -> Client:
    assert bench.worker.sessions is not None and bench.worker.client is not None
    return bench.worker.sessions.client_for(bench.worker.client, modern, declares)


def call(bench: Bench, declares: bytes = NOTHING, *, modern: bool = False) -> Call:
    """A call of an agent of this era that declared this set."""
    one, client = Call(), client_for(bench, declares, modern=modern)
    client.call_tool(one, b'"echo"', b'{"text":"x"}', HUB_META_MEMBER if client.era == "modern" else b"")
    return one


def sessions(server: RudeHttp, key: str = "tools/call") -> list[str | None]:
    """The session that each request of this kind named, None = it was a modern one."""
    return [request.header("Mcp-Session-Id") for request in server.sent(key)]


def told(server: RudeHttp) -> list[Any]:
    """What each `initialize` declared."""
    return [request.params["capabilities"] for request in server.sent("initialize")]


def count(bench: Bench) -> int:
    assert bench.worker.sessions is not None
    return bench.worker.sessions.count


@asynccontextmanager
async def connected(spec: ServerSpec, around: Surroundings, **more: Any) -> AsyncIterator[Bench]:
    async with working(Bench(spec, around, **more)) as bench:
        await bench.connected()
        yield bench


# --- who gets which ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [(MODERN,), (MODERN, *LEGACY)], ids=["names its modern version", "names all"])
async def test_each_era_by_itself(around: Surroundings, named: tuple[str, ...]) -> None:
    """A server of both eras is spoken to in the modern one for modern agents, and for legacy agents in a session for
    each set of capabilities, which declares exactly these; agents with equal sets share one. All are ended."""
    async with RudeHttp(OrdinaryMcp(era="both", named=named)) as server:
        async with connected(far(server.url), around) as bench:
            calls = [call(bench, modern=True), call(bench, ELICITATION), call(bench, WITH_SAMPLING)]
            calls += [call(bench, ELICITATION), call(bench, modern=True)]
            assert [await one.outcome for one in calls] == [["answered"]] * 5
            first, second = sorted(map(str, told(server)))
            assert (first, second) == (
                "{'elicitation': {}, 'roots': {}, 'sampling': {}}", "{'elicitation': {}}"
            )  # fmt: skip
            named_by = sessions(server)
            assert named_by.count(None) == 2 and len(set(named_by)) == 3
            assert sorted(str(one) for one in named_by if one) in (
                ["session-1", "session-1", "session-2"], ["session-1", "session-2", "session-2"]
            )  # fmt: skip
            assert count(bench) == 2
            assert bench.worker.facts is not None and bench.worker.facts.era == "modern"
        assert sorted(str(one) for one in sessions(server, "DELETE")) == ["session-1", "session-2"]
        await server.until(lambda: server.open == 0)


async def test_a_legacy_server(around: Surroundings) -> None:
    """Its worker's own session serves the set that it declared, of agents of either era; any other set has one of its
    own."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        assert client_for(bench, SHARED) is client_for(bench, SHARED, modern=True) is bench.worker.client
        assert await call(bench, SHARED).outcome == await call(bench, NOTHING).outcome == ["answered"]
        assert sessions(server) == ["session-1", "session-2"]
        assert told(server) == [{"elicitation": {}, "roots": {}}, {}]
        assert client_for(bench, NOTHING) is client_for(bench, NOTHING, modern=True) is not bench.worker.client
        assert [client_for(bench, key).sampling for key in (NOTHING, WITH_SAMPLING)] == [False, True]


async def test_a_server_of_the_modern_era_alone(around: Surroundings) -> None:
    """It is asked once; the call that waited for the answer goes over the only connection, as do all later ones."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, connected(far(server.url), around) as bench:
        calls = [call(bench, ELICITATION), call(bench, ELICITATION)]
        assert [await one.outcome for one in calls] == [["resent", "answered"]] * 2
        assert await call(bench, ELICITATION).outcome == await call(bench, SAMPLING).outcome == ["answered"]
        assert len(server.sent("initialize")) == 1 and sessions(server) == [None] * 4
        assert count(bench) == 0 and not any("session" in text for text in bench.logged)


@pytest.mark.parametrize(("era", "handshakes"), [("modern", 0), ("legacy", 2)])
async def test_an_era_that_is_pinned(around: Surroundings, era: str, handshakes: int) -> None:
    """An entry that says `modern` is spoken to so for everybody; one that says `legacy` has its sets."""
    async with RudeHttp(OrdinaryMcp(era="both")) as server, connected(far(server.url, era=era), around) as bench:
        assert await call(bench, ELICITATION).outcome == ["answered"]
        assert len(server.sent("initialize")) == handshakes


async def test_no_more_than_so_many(around: Surroundings) -> None:
    """Beyond, the idle one that was not used for longest makes room; where all are busy, the own connection serves."""

    class Home:
        """A worker, as far as sessions need it."""

        client: Client | None = None

        def heard(self, client: Client, method: str, params: Raw) -> None: ...

        def asked(self, client: Client, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
            return False

        def noted(self, text: str) -> None: ...

        def check(self) -> None: ...

        def changed(self) -> None: ...

        def broke(self, error: BaseException) -> None:
            raise error

    async with RudeHttp(OrdinaryMcp()) as server:
        own = Client(Heard())
        own.use(KeptChannel())
        several = LegacySessions(Home(), far(server.url), around, StderrRing(1000), b"[]", most=2)
        several.beside(legacy=True, possible=True)
        assert several.client_for(own, False, NOTHING) is own  # nobody runs it yet
        async with several.living():
            held = asyncio.Event()
            server.on("tools/call", lambda request: body(request.result({})).after(held))
            busy = Call()
            several.client_for(own, False, NOTHING).call_tool(busy, b'"echo"', b"{}", b"")
            await server.until(lambda: server.sent("tools/call"))
            idle = Call()
            several.client_for(own, False, SAMPLING).call_tool(idle, b'"echo"', b"{}", b"")
            assert await idle.outcome == ["answered"] and several.count == 2
            another = several.client_for(own, False, ELICITATION)
            assert another is not own and several.count == 2
            waits = Call()
            another.call_tool(waits, b'"echo"', b"{}", b"")
            assert several.client_for(own, False, WITH_SAMPLING) is own and several.calls == 2
            assert await waits.outcome == ["answered"]
            await server.until(lambda: sessions(server, "DELETE") == ["session-2"])
            held.set()
            assert await busy.outcome == ["answered"]
        assert sorted(map(str, sessions(server, "DELETE"))) == ["session-1", "session-2", "session-3"]


# --- calls that wait for one ------------------------------------------------------------------------------------------


async def test_what_waits_is_sent_in_order_behind_the_handshake(around: Surroundings) -> None:
    """Nothing overtakes `notifications/initialized`, and the session's own stream is asked for before the first call,
    since what a server asks there before it is open is lost."""
    mcp = OrdinaryMcp(standing=True)
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        await server.until(lambda: server.sent("GET"))
        before = len(server.requests)
        calls = [call(bench) for _ in range(3)]
        assert [await one.outcome for one in calls] == [["answered"]] * 3
        came = [request.key for request in server.requests[before:]]
        assert came == ["initialize", "notifications/initialized", "GET", *["tools/call"] * 3]


async def test_a_stream_that_does_not_begin(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds calls up for a bounded time only."""
    monkeypatch.setattr(legacy_sessions, "STREAM_LIMIT", 0.05)
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        server.on("GET", raw(NEVER), times=None)
        assert await call(bench).outcome == ["answered"]


async def test_one_that_is_cancelled_while_it_waits(around: Surroundings) -> None:
    """The server never hears of it, nor of its end."""
    mcp, held = OrdinaryMcp(), asyncio.Event()
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        server.on("initialize", lambda request: mcp(request).after(held))
        client = client_for(bench)
        gone, kept = call(bench), call(bench)
        await server.until(lambda: len(server.sent("initialize")) == 2)
        assert client.withdraw(1, "enough") and client.calls == 1
        held.set()
        assert await kept.outcome == ["answered"]
        assert gone.told == [] and len(server.sent("tools/call")) == 1
        assert server.sent("notifications/cancelled") == []


@pytest.mark.parametrize(
    ("answer", "kind", "part"),
    [
        (empty(503), "session_over", "503"),
        (empty(401), "needs_auth", "sign-in"),
        (raw(CLOSE), "session_over", "cannot be opened"),
    ],
    ids=["503", "401", "closed"],
)
async def test_one_that_cannot_be_opened(around: Surroundings, answer: Any, kind: str, part: str) -> None:
    """Its calls are told so, as what the server has not acted on; the worker's own connection is looked at, and the
    next call tries again."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        server.on("initialize", answer)
        waits = call(bench)
        assert await waits.outcome == [kind]
        assert part in waits.why
        assert await call(bench).outcome == ["answered"]
        assert sessions(server) == ["session-2"]
        await server.until(lambda: len(server.sent("tools/list")) == 2)
        assert any("a session cannot be opened" in text for text in bench.logged)


async def test_an_opening_that_takes_too_long(around: Surroundings) -> None:
    """It ends before the calls that wait for it would, so that they can be told that they were not sent."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url, call_timeout=0.3), around) as bench:
        server.on("initialize", raw(NEVER))
        waits = call(bench)
        waits.deadline = anyio.current_time() + 0.3
        assert await waits.outcome == ["session_over"]
        assert waits.why == "a session with it cannot be opened: no answer to initialize in 0.24 s"


async def test_an_attempt_that_is_not_answered(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A modern server that is silent to `initialize` is one that does not speak it."""
    monkeypatch.setattr(legacy_sessions, "ATTEMPT_LIMIT", 0.1)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, connected(far(server.url), around) as bench:
        server.on("initialize", raw(NEVER))
        assert await call(bench).outcome == ["resent", "answered"]
        assert await call(bench).outcome == ["answered"]
        assert len(server.sent("initialize")) == 1


async def test_a_server_that_wants_one_session_only(around: Surroundings) -> None:
    """A second `initialize` that is refused is not tried again: that set shares the own session, as the log says."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        refuse = lambda request: body(request.error(-32600, "Server already initialized"), status=400)  # noqa: E731
        server.on("initialize", refuse, times=None)
        assert await call(bench).outcome == ["resent", "answered"]
        assert await call(bench).outcome == ["answered"]
        assert sessions(server) == ["session-1"] * 2 and len(server.sent("initialize")) == 2
        [said] = [text for text in bench.logged if "session" in text]
        assert "the shared one is used" in said and "already initialized" in said


# --- ends -------------------------------------------------------------------------------------------------------------


async def test_idle(around: Surroundings) -> None:
    """A session without calls is ended after a while; one with a call is not, however long that takes; the next call
    has another."""
    mcp = OrdinaryMcp()
    async with RudeHttp(mcp) as server, connected(far(server.url), around, session_idle=0.1) as bench:
        server.on("tools/call", lambda request: mcp(request).after(0.4))
        slow = call(bench)
        assert await slow.outcome == ["answered"]
        assert server.sent("DELETE") == []
        await server.until(lambda: sessions(server, "DELETE") == ["session-2"])
        assert count(bench) == 0
        assert await call(bench).outcome == ["answered"]
        assert sessions(server) == ["session-2", "session-3"]
        assert bench.states == ["Pending", "Connected"] and "lost" not in str(bench.logged)


async def test_a_session_that_is_open_is_no_use(around: Surroundings) -> None:
    """A server with an idle time sleeps though a session for its agents is open, which ends then; a call in one, or a
    resource that is watched there, keeps it; the next call begins anew."""
    mcp, gate = OrdinaryMcp(), asyncio.Event()
    async with RudeHttp(mcp) as server, connected(far(server.url, idle_timeout=0.3), around) as bench:
        worker = bench.worker
        server.on("tools/call", lambda request: mcp(request).after(gate))
        slow = call(bench)
        with anyio.move_on_after(0.8):
            await bench.lost()
        assert isinstance(worker.state, Connected)
        gate.set()
        assert await slow.outcome == ["answered"]
        watched = client_for(bench)
        watched.watched = True
        with anyio.move_on_after(0.8):
            await bench.lost()
        assert isinstance(worker.state, Connected)
        assert await call(bench, SAMPLING).outcome == ["answered"]
        assert count(bench) == 2
        watched.watched = False
        await bench.until(lambda w: w.state == IDLE)
        await server.until(lambda: len(server.sent("DELETE")) == 3)
        assert count(bench) == 0 and "lost" not in str(bench.logged)
        worker.wake_idle()
        await bench.connected()
        assert await call(bench).outcome == ["answered"]


async def test_calls_in_sessions_are_use(around: Surroundings) -> None:
    """What agents ask in sessions is counted over all there were, each once, and never becomes less."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around, session_idle=0.1) as bench:
        sessions = bench.worker.sessions
        assert sessions is not None
        for asked, declares in enumerate((NOTHING, ELICITATION, SAMPLING), 1):
            assert await call(bench, declares).outcome == ["answered"]
            assert sessions.asked == asked
        signs = sessions.signs
        assert signs == 6  # of each the handshake and the call
        await server.until(lambda: len(server.sent("DELETE")) == 3 and count(bench) == 0)
        assert (sessions.asked, sessions.signs, sessions.used) == (3, signs, False)


async def test_a_session_that_is_watched(around: Surroundings) -> None:
    """It is in use, though nothing is called there: it outlives one without subscriptions, until it has none."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around, session_idle=0.1) as bench:
        watched = client_for(bench, ELICITATION)
        watched.watched = True
        assert await call(bench, ELICITATION).outcome == ["answered"]
        assert await call(bench, SAMPLING).outcome == ["answered"]
        await server.until(lambda: sessions(server, "DELETE") == ["session-3"])
        assert not watched.over and client_for(bench, ELICITATION) is watched
        watched.watched = False
        await server.until(lambda: len(server.sent("DELETE")) == 2)


async def test_a_server_that_forgets_all_sessions(around: Surroundings) -> None:
    """C065: calls that are refused for a session that is over are sent again once in its successor, under their ids; so
    for each set, and the worker's own session is renewed without any of them noticing."""
    mcp = OrdinaryMcp()
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        assert await call(bench).outcome == await call(bench, SAMPLING).outcome == ["answered"]
        mcp.expire()
        calls = [call(bench) for _ in range(3)] + [call(bench, SAMPLING)]
        assert [await one.outcome for one in calls] == [["moved", "answered"]] * 4
        await bench.until(lambda w: bench.states == ["Pending", "Connected"] * 2)
        assert await call(bench).outcome == await call(bench, SAMPLING).outcome == ["answered"]
        assert len(server.sent("initialize")) == 6 and count(bench) == 2
        sent = [request.message["id"] for request in server.sent("tools/call")[2:]]
        assert sorted(sent[:4]) == sorted(sent[4:8])


@pytest.mark.parametrize("status", [400, 404])
async def test_an_ordinary_error_is_no_end_of_a_session(around: Surroundings, status: int) -> None:
    """C065: an error that names its request is the answer to it, whatever its status and words; what else is in flight
    in that session is not touched."""
    mcp, held = OrdinaryMcp(), asyncio.Event()
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        server.on("tools/call", lambda request: mcp(request).after(held))
        slow = call(bench)
        await server.until(lambda: server.sent("tools/call"))
        no = "the session token is invalid"
        server.on("tools/call", lambda request: body(request.error(-32602, no), status=status))
        assert await call(bench).outcome == ["error"]
        held.set()
        assert await slow.outcome == await call(bench).outcome == ["answered"]
        assert set(sessions(server)) == {"session-2"} and count(bench) == 1


async def test_a_session_that_is_over_twice(around: Surroundings) -> None:
    """C065: a call is sent again once, then it is told."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        server.on("tools/call", empty(404), times=2)
        assert await call(bench).outcome == ["moved", "session_over"]
        assert (await call(bench).outcome)[-1] == "answered"


async def test_the_own_session_is_over(around: Surroundings) -> None:
    """The sessions of agents, and the calls in them, have nothing to do with that."""
    mcp, held = OrdinaryMcp(), asyncio.Event()
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        server.on("tools/call", lambda request: mcp(request).after(held))
        slow = call(bench)
        await server.until(lambda: server.sent("tools/call"))
        mcp.known.discard("session-1")
        bench.worker.check()
        await bench.until(lambda w: bench.states == ["Pending", "Connected"] * 2)
        held.set()
        assert await slow.outcome == ["answered"]
        assert await call(bench).outcome == ["answered"]
        assert sessions(server) == ["session-2"] * 2


@pytest.mark.parametrize("era", ["legacy", "both"])
@pytest.mark.parametrize("turns", [(NOTHING,), (NOTHING, SAMPLING, ELICITATION)], ids=["one set", "three sets"])
async def test_a_server_that_is_gone(around: Surroundings, turns: tuple[bytes, ...], era: str) -> None:
    """C086: the third call in a row that fails, in whichever sessions, ends the worker's own connection too: what the
    status says of the server is that it cannot be reached."""
    async with RudeHttp(OrdinaryMcp(era=era)) as server, connected(far(server.url), around) as bench:
        for declares in turns:
            assert await call(bench, declares).outcome == ["answered"]
        await server.__aexit__(None, None, None)
        for number in range(3):
            assert isinstance(bench.worker.state, Connected)
            assert await call(bench, turns[number % len(turns)]).outcome == ["unreachable"]
        await bench.lost()
        assert bench.worker.last_fault is not None
        assert "too many requests in a row failed: nothing listens at" in bench.worker.last_fault.message


async def test_a_server_that_is_gone_before_there_are_sessions(around: Surroundings) -> None:
    """C086: openings that fail on their way count like calls."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        await server.__aexit__(None, None, None)
        for _ in range(3):
            if isinstance(bench.worker.state, Connected):
                # As the connection ends meanwhile.
                assert (await call(bench).outcome)[0] in ("unreachable", "session_over")
        await bench.lost()


@pytest.mark.parametrize(
    "turns",
    [
        [(SAMPLING, False), (SAMPLING, True)] * 3,
        [(SAMPLING, False), (SAMPLING, False), (ELICITATION, True), (NOTHING, False), (ELICITATION, False)],
    ],
    ids=["its own", "another session's"],
)
async def test_failures_with_an_answer_between(around: Surroundings, turns: list[tuple[bytes, bool]]) -> None:
    """C086: an answer, in whichever session, ends the row: the own connection, which stays, is not even asked."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        for declares in (SAMPLING, ELICITATION, NOTHING):
            assert await call(bench, declares).outcome == ["answered"]
        for declares, answered in turns:
            if not answered:
                server.on("tools/call", raw(CLOSE))
            assert await call(bench, declares).outcome == ["answered" if answered else "lost"]
        assert not server.sent("ping") and bench.states == ["Pending", "Connected"]


async def test_three_in_a_row(around: Surroundings) -> None:
    """C086: they end that session alone; the worker's own connection is looked at."""
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        assert await call(bench, SAMPLING).outcome == ["answered"]
        server.on("tools/call", raw(CLOSE), times=3)
        for _ in range(3):
            assert await call(bench).outcome == ["lost"]
        await bench.until(lambda w: count(bench) == 1)
        await server.until(lambda: len(server.sent("tools/list")) == 2)
        assert await call(bench).outcome == await call(bench, SAMPLING).outcome == ["answered"]
        assert sessions(server)[-2:] == ["session-4", "session-2"]
        assert bench.states == ["Pending", "Connected"]


async def test_the_server_is_lost(around: Surroundings) -> None:
    """C085: with the own connection all sessions end; what was on its way has an unknown outcome."""
    async with (
        RudeHttp(OrdinaryMcp()) as server,
        connected(far(server.url), around, backoff=Backoff(attempts=0)) as bench,
    ):
        server.on("tools/call", raw(NEVER))
        slow = call(bench)
        await server.until(lambda: server.sent("tools/call"))
        server.on("*", raw(CLOSE), times=None)
        for _ in range(3):
            own = Call()
            assert bench.worker.client is not None
            bench.worker.client.call_tool(own, b'"echo"', b"{}", b"")
            assert await own.outcome == ["lost"]
        assert await slow.outcome == ["lost"]
        await bench.until(lambda w: not isinstance(w.state, Connected))
        assert count(bench) == 0


async def test_turned_off(around: Surroundings) -> None:
    """What was sent is lost, what was not is told so, each session is ended, and all in a bounded time."""
    mcp = OrdinaryMcp()
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        server.on("tools/call", raw(NEVER))
        sent = call(bench)
        await server.until(lambda: server.sent("tools/call"))
        server.on("initialize", raw(NEVER))
        waits = call(bench, SAMPLING)
        await server.until(lambda: len(server.sent("initialize")) == 3)
        bench.worker.post(TurnedOff("person"))
        assert await sent.outcome == ["lost"] and await waits.outcome == ["session_over"]
        await server.until(lambda: len(server.sent("DELETE")) == 2)
        assert count(bench) == 0


async def test_a_fault_of_ours(around: Surroundings) -> None:
    """It costs one session, is reported, and says so."""
    reported: list[BaseException] = []

    def fault(worker: Worker, method: str) -> None:
        raise KeyError("boom")

    said = encoded({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    async with RudeHttp(OrdinaryMcp()) as server:
        more = replace(around, report=reported.append)
        async with connected(far(server.url), more, on_said=fault) as bench:
            server.on("tools/call", lambda request: stream(event(said), event(request.result({}))))
            assert await call(bench).outcome == ["lost"]
            assert await call(bench).outcome == ["answered"]
            assert bench.states == ["Pending", "Connected"]
    assert [repr(e) for e in reported] == ["KeyError('boom')"]


# --- what servers say there -------------------------------------------------------------------------------------------


async def test_what_a_server_says(around: Surroundings) -> None:
    """A changed list is listed again by the worker, anything else is heard as said in that session; agents hear the
    session of their set alone, or the worker's own where they have none."""
    changed = encoded({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    updated = encoded({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x:1"}})

    def says(request: Request) -> Any:
        return stream(event(changed), event(updated), event(request.result({"content": []})))

    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url), around) as bench:
        server.on("tools/call", says)
        assert await call(bench).outcome == ["answered"]
        client, worker = client_for(bench), bench.worker
        assert (bench.said, bench.said_on) == (["notifications/resources/updated"], [client])
        await server.until(lambda: len(server.sent("tools/list")) == 2)
        assert worker.client is not None
        assert worker.is_for(client, NOTHING) and not worker.is_for(worker.client, NOTHING)
        assert worker.is_for(worker.client, SAMPLING) and not worker.is_for(client, SAMPLING)


async def test_the_log_level(around: Surroundings) -> None:
    """B73: each session of a server that logs gets the level, when it begins and whenever it is another one."""
    mcp = OrdinaryMcp(capabilities={"tools": {}, "logging": {}}, results={"logging/setLevel": {}})
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        bench.worker.want_log_level("debug")
        assert await call(bench).outcome == ["answered"]
        bench.worker.want_log_level("error")
        await server.until(lambda: len(server.sent("logging/setLevel")) == 4)
        asked = [(r.header("Mcp-Session-Id"), r.params["level"]) for r in server.sent("logging/setLevel")]
        assert sorted(map(str, asked)) == [
            "('session-1', 'debug')", "('session-1', 'error')", "('session-2', 'debug')", "('session-2', 'error')",
        ]  # fmt: skip


async def test_roots_of_a_session(around: Surroundings) -> None:
    """A question that nobody else answers gets the hub's own answer there too; what is odd is counted with the rest."""
    question = encoded({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
    async with RudeHttp(OrdinaryMcp()) as server, connected(far(server.url, workspace="/w"), around) as bench:
        server.on("tools/call", lambda r: stream(event(question), event(r.result({"content": []}))))
        assert await call(bench).outcome == ["answered"]
        await server.until(lambda: server.sent("response"))
        [reply] = server.sent("response")
        assert reply.message["result"] == {"roots": [{"uri": "file:///w"}]}
        assert reply.header("Mcp-Session-Id") == "session-2"
        assert bench.worker.counters()["server_requests"] == 1
        assert META not in str(reply.message)


# --- one session at a time --------------------------------------------------------------------------------------------


class OneSession(OrdinaryMcp):
    """A server that opens a session by ending the one before."""

    def initialized(self, request: Request) -> dict[str, Any]:
        self.known.clear()
        return super().initialized(request)


async def test_a_server_that_keeps_one_session(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """After two evictions all that is legacy shares the worker's own session, told once; no call is lost on the way.
    Later it is tried again, and one eviction is enough."""
    async with RudeHttp(OneSession()) as server, connected(far(server.url), around) as bench:
        sets = (SHARED, NOTHING)
        found = [(await call(bench, declares).outcome)[-1] for _ in range(4) for declares in sets]
        assert found == ["answered"] * 8
        sessions_ = bench.worker.sessions
        assert sessions_ is not None and sessions_.shares and sessions_.warnings == (legacy_sessions.ONE_SESSION,)
        await bench.until(lambda w: count(bench) == 0)
        assert client_for(bench, NOTHING) is client_for(bench, SAMPLING) is bench.worker.client
        before = len(server.sent("initialize"))
        for declares in (*sets, SAMPLING) * 3:
            assert (await call(bench, declares).outcome)[-1] == "answered"
        assert len(server.sent("initialize")) == before <= 6
        assert sum("one session at a time" in text for text in bench.logged) == 1

        monkeypatch.setattr(sessions_, "_shared", 0.0)  # what was believed is over
        found = [(await call(bench, declares).outcome)[-1] for _ in range(2) for declares in sets]
        assert found == ["answered"] * 4 and sessions_.shares
        assert len(server.sent("initialize")) <= before + 3
        assert sum("one session at a time" in text for text in bench.logged) == 1


async def test_calls_in_flight_when_one_session_is_shared(around: Surroundings) -> None:
    """What runs in a session that gets no more calls is answered there; it is closed after that."""
    mcp, held = OrdinaryMcp(), asyncio.Event()
    async with RudeHttp(mcp) as server, connected(far(server.url), around) as bench:
        server.on("tools/call", lambda request: mcp(request).after(held))
        slow = call(bench)
        await server.until(lambda: server.sent("tools/call"))
        sessions_ = bench.worker.sessions
        assert sessions_ is not None
        for _ in range(2):  # as if the own session had been lost twice
            sessions_.opening(client_for(bench))
            now = asyncio.get_running_loop().time()
            sessions_._judge(now, False)
        assert count(bench) == 0 and sessions_.calls == 1
        assert await call(bench).outcome == ["answered"]
        held.set()
        assert await slow.outcome == ["answered"]
        await server.until(lambda: sessions(server, "DELETE") == ["session-2"])
        assert sessions(server) == ["session-2", "session-1"]
