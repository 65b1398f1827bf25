"""What networks that go and come, and sleep, mean for servers: who is told, when, and what the log has of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.machine import IDLE, Connected, Failed, NeedsAuth, Pending, State
from mcphub.connection.worker import Worker
from mcphub.outage.clocks import Clocks
from mcphub.outage.news import News
from mcphub.outage.ways import ANYWHERE, Network, Standing, Way
from mcphub.spec import HttpSpec, InProcessSpec, Origin, Scope, Secret, ServerSpec, SseSpec, StdioSpec, WsSpec
from mcphub.supervisor import outages as module
from mcphub.supervisor.outages import ALL_WITHIN, Outages, delays, host_of
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.wire import Batch
from tests.connection.workers import QUICK
from tests.supervisor.test_supervisor import Quiet

pytestmark = pytest.mark.anyio

WIFI, CABLE, VPN = Way("192.168.1.5", 2), Way("192.168.7.9", 3), Way("10.8.0.2", 5)
V4 = ANYWHERE[0]
NOTHING = Network({})
HOME = Network({V4: WIFI, "10.8.0.1": None, "192.168.1.9": WIFI}, frozenset([WIFI.source]))
TUNNEL = Network({**HOME.ways, "10.8.0.1": VPN}, HOME.addresses | {VPN.source})
OFFICE = Network({V4: CABLE, "10.8.0.1": None, "192.168.1.9": CABLE}, frozenset([CABLE.source]))
CONTAINERS = Network({}, frozenset(["172.17.0.1"]))
FAR, PRIVATE, LAN, HERE = "https://far.example/mcp", "http://10.8.0.1/mcp", "http://192.168.1.9/mcp", "http://[::1]/mcp"
GONE = Fault(FaultKind.UNREACHABLE, "spawn", "gone")
DOWN = Pending(3, 1e12, GONE)


def at(url: str, kind: type[HttpSpec] = HttpSpec, name: str = "one") -> ServerSpec:
    return ServerSpec(name, Origin(Scope.USER, "/mcp.json", name), kind(Secret(url), {}, url))


def program(name: str = "prog") -> ServerSpec:
    return ServerSpec(name, Origin(Scope.USER, "/mcp.json", name), StdioSpec("x"))


PROXY = {"https_proxy": "http://proxy.example:8080", "no_proxy": "near.example"}


@pytest.mark.parametrize(
    ("spec", "env", "expected"),
    [
        (at(FAR), {}, "far.example"),
        (at("wss://far.example/mcp", WsSpec), {}, "far.example"),
        (at("http://[2001:db8::7]:8080/sse", SseSpec), {}, "2001:db8::7"),
        (at(FAR), PROXY, "proxy.example"),
        (at("wss://far.example/mcp", WsSpec), PROXY, "proxy.example"),
        (at("https://near.example/mcp"), PROXY, "near.example"),
        (at("http://far.example/mcp"), PROXY, "far.example"),
        # a proxy on this machine
        (at(FAR), {"https_proxy": "http://127.0.0.1:3128"}, ""),
        (at(FAR), {"https_proxy": "::"}, ""),
        # on this machine, in every spelling
        *((at(f"http://{host}:1/mcp"), PROXY, None) for host in ("127.0.0.1", "[::1]", "localhost", "a.localhost")),
        (program(), PROXY, None),
        (ServerSpec("in", Origin(Scope.USER, "/m", "in"), InProcessSpec("in")), {}, None),
    ],
)
def test_the_host_that_must_be_reached(spec: ServerSpec, env: dict[str, str], expected: str | None) -> None:
    """It is the server's own, or the proxy's on the way to it; what is on this machine needs none."""
    assert host_of(spec, env) == expected


@given(st.integers(0, 3000), st.randoms(use_true_random=True))
def test_delays(count: int, chance: object) -> None:
    """C085: no two at the same moment, the first at once, the last in bounded time, in no order."""
    found = delays(count, chance.random)  # type: ignore[attr-defined]
    assert len(found) == count
    assert all(0 <= delay < ALL_WITHIN for delay in found)
    assert not found or min(found) < 0.02
    step = min(0.02, ALL_WITHIN / max(count, 1))
    assert [int(delay / step + 1e-9) for delay in sorted(found)] == pytest.approx(range(count), abs=1)


class House:
    """A machine: what its networks are now, and the workers of its servers, at rest, with the states they have."""

    def __init__(self) -> None:
        surroundings = Surroundings(Launcher(), Batch(), dict)
        self.lines: list[tuple[str, str]] = []
        self.network = HOME
        self.asleep = 0.0
        self.looks = 0
        self.supervisor = Supervisor(surroundings, Limiters.of(3), QUICK, Quiet(), lambda level, text: None)
        self.outages = Outages(self.supervisor, dict, self._log, self._look, lambda: News(self._read, every=0.002))
        self._surroundings = surroundings

    def add(self, name: str, url: str, state: State = DOWN) -> Worker:
        spec = at(url, name=name) if url else program(name)
        limiter = anyio.CapacityLimiter(1)
        worker = Worker(
            spec, self._surroundings, limiter, QUICK, lambda: None, Quiet(), lambda level, text: None
        )
        worker.state = state
        self.supervisor.workers[worker.key] = worker
        self.supervisor.joined(worker)
        return worker

    async def become(self, network: Network, *, asleep: float = 0) -> list[str]:
        """Be there for some looks; what was logged meanwhile."""
        self.network = network
        self.asleep += asleep
        before, looks = len(self.lines), self.looks
        with anyio.fail_after(5):
            while self.looks < looks + 6:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        return [text for _, text in self.lines[before:]]

    def _look(self, addresses: Iterable[str]) -> Network:
        self.looks += 1
        return self.network

    def _read(self) -> Clocks:
        return Clocks(100, 100 + self.asleep, 1.7e9)

    def _log(self, level: str, text: str) -> None:
        self.lines.append((level, text))


@asynccontextmanager
async def running() -> AsyncIterator[House]:
    house = House()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.outages.run)
        await house.become(HOME)
        yield house
        tasks.cancel_scope.cancel()


def offline(worker: Worker) -> bool:
    state = worker.state
    return worker.severed and isinstance(state, Pending) and state.offline


async def test_a_network_that_goes_and_comes() -> None:
    """What is far is not tried while there is no network, and at once when there is one, with a fresh count; servers on
    this machine, and what waits for a person, go on; two lines tell it all."""
    async with running() as house:
        far, given_up = house.add("far", FAR), house.add("given-up", LAN, Failed(GONE, 5))
        here, prog = house.add("here", HERE), house.add("prog", "")
        auth, idle = house.add("auth", FAR, NeedsAuth("sign in")), house.add("idle", LAN, IDLE)
        before = here.state, prog.state, auth.state, idle.state
        assert await house.become(HOME) == []
        assert await house.become(NOTHING) == [
            "offline: no network; no way to auth, far, given-up, idle, not tried until there is one"
        ]
        assert offline(far) and offline(given_up)
        assert (house.outages.standing, house.outages.waiting) == (Standing.OFFLINE, 4)
        another = house.add("auth", LAN, NeedsAuth("sign in"))  # of the same entry, for other agents
        assert another.key != auth.key and house.outages.waiting == 4
        del house.supervisor.workers[another.key]
        assert (here.state, prog.state, auth.state, idle.state) == before
        assert not (here.severed or prog.severed)
        (line,) = await house.become(HOME)
        assert line == "online again after 0 s; there is a way to auth, far, given-up, idle again"
        for worker in (far, given_up):
            assert isinstance(worker.state, Pending) and not worker.state.offline
            assert (worker.state.attempt, worker.severed) == (0, False)
            assert worker.state.retry_at < anyio.current_time() + ALL_WITHIN
        assert (here.state, prog.state, auth.state, idle.state) == before
        assert house.lines[0][0] == "warning" and house.lines[1][0] == "info"


async def test_a_vpn() -> None:
    """Only the servers behind it wait for it; the others are neither held up nor disturbed by its end."""
    async with running() as house:
        far, private = house.add("far", FAR, Connected(0)), house.add("private", PRIVATE)
        assert offline(private) and not far.severed
        assert await house.become(TUNNEL) == ["there is a way to private again"]
        assert not private.severed
        assert await house.become(HOME) == ["no way to private, not tried until there is one"]
        assert offline(private) and house.outages.standing is Standing.ONLINE
        assert isinstance(far.state, Connected) and house.outages.waiting == 1


async def test_another_network() -> None:
    """From the radio to the cable: what is down is tried at once, what is open is looked at, not thrown away."""
    async with running() as house:
        far, down = house.add("far", FAR, Connected(0)), house.add("down", FAR)
        (line,) = await house.become(OFFICE)
        assert line == "the networks have changed; 1 tried at once; 1 open connection is looked at"
        assert isinstance(far.state, Connected)
        assert isinstance(down.state, Pending) and down.state.attempt == 0


async def test_sleep() -> None:
    """After it the same: the time of a delay, and the other end of a connection, did not sleep."""
    async with running() as house:
        house.add("far", FAR, Connected(0))
        down, here = house.add("down", FAR, Failed(GONE, 5)), house.add("here", HERE)
        before = here.state
        (line,) = await house.become(HOME, asleep=2 * 3600)
        assert line == "the machine slept for 2.0 h; 1 tried at once; 1 open connection is looked at"
        assert isinstance(down.state, Pending) and down.state.attempt == 0
        assert here.state is before
        assert await house.become(HOME) == []
        # and where the network is gone when it wakes
        (line,) = await house.become(NOTHING, asleep=60)
        assert line.startswith("the machine slept for 1.0 min; offline: no network; no way to down, far")
        assert offline(down)


async def test_a_network_that_leads_nowhere_known() -> None:
    """What is down is tried when one is joined, but not each time: some machines join one with each container."""
    async with running() as house:
        down, up = house.add("down", FAR), house.add("up", FAR, Connected(0))
        more = replace(HOME, addresses=HOME.addresses | {"172.18.0.1"})
        assert await house.become(more) == ["the networks have changed; 1 tried at once"]
        assert isinstance(down.state, Pending) and down.state.attempt == 0
        down.state = DOWN
        assert await house.become(HOME) == []
        assert await house.become(more) == []
        assert down.state == DOWN and isinstance(up.state, Connected)


async def test_a_name_without_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a network has no way out, a name is looked up: one that leads to what can be reached is tried."""
    async with running() as house:
        # Whatever the machine's own files of hosts say, this name is there, and leads to itself.
        own, far = house.add("own", "http://127.0.0.1.nip.invalid/mcp"), house.add("far", FAR)
        answers = {"127.0.0.1.nip.invalid": "192.168.1.9"}

        async def look_up(name: str) -> list[tuple[object, ...]]:
            if name not in answers:
                raise OSError
            return [(0, 0, 0, "", (answers[name], 0))]

        monkeypatch.setattr(module, "look_up", look_up)
        island = Network({"192.168.1.9": WIFI}, HOME.addresses)
        (line,) = await house.become(island)
        assert line == "offline: no way out of the local networks; no way to far, not tried until there is one"
        assert offline(far) and not own.severed
        assert (house.outages.standing, house.outages.waiting) == (Standing.LOCAL, 1)
        answers.clear()
        assert await house.become(replace(island, addresses=frozenset(["192.168.1.5", "172.17.0.1"]))) == [
            "no way to own, not tried until there is one"
        ]
        assert offline(own)
        (line,) = await house.become(HOME)
        assert line == "online again after 0 s; there is a way to far, own again"


async def test_names_that_cannot_be_looked_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that does not answer holds nothing up for long."""
    monkeypatch.setattr(module, "NAME_LIMIT", 0.02)
    async with running() as house:

        async def never(name: str) -> None:
            await anyio.sleep_forever()

        monkeypatch.setattr(module, "look_up", never)
        far = house.add("far", FAR)
        await house.become(CONTAINERS)
        assert offline(far)


async def test_a_server_that_is_added_meanwhile() -> None:
    """It is not tried either, from the first moment on, and is when there is a way."""
    async with running() as house:
        await house.become(NOTHING)
        assert house.lines == [("info", "offline: no network")]
        late, near = house.add("late", LAN, Pending(0, 0.0)), house.add("near", HERE, Pending(0, 0.0))
        assert offline(late) and not near.severed
        await house.become(HOME)
        assert not late.severed


async def test_a_start_without_a_network() -> None:
    """One line says who waits, and of many not each name."""
    house = House()
    house.network = NOTHING
    await house.outages._look_again(0)
    house.lines.clear()
    workers = [house.add(f"s{n}", f"http://192.168.1.{n}/mcp") for n in range(9)]
    assert all(offline(worker) for worker in workers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.outages.run)
        await house.become(NOTHING)
        tasks.cancel_scope.cancel()
    said = "offline: no network; no way to s0, s1, s2, s3, s4 and 4 more, not tried until there is one"
    assert house.lines == [("warning", said)]


async def test_a_system_that_cannot_be_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, nobody is held up by it, and it is tried again."""
    monkeypatch.setattr(module, "AGAIN", 0.01)
    house = House()
    usual = house.outages._news
    far = house.add("far", FAR)
    async with anyio.create_task_group() as tasks:
        house.outages._news = lambda: (refused if len(house.lines) < 2 else usual)()
        tasks.start_soon(house.outages.run)
        said = "cannot follow what happens to the networks: refused; tried again in 0 s"
        assert await house.become(HOME) == [said, said]
        assert not far.severed
        await house.become(NOTHING)
        assert offline(far)
        tasks.cancel_scope.cancel()


def refused() -> News:
    raise OSError("refused")


async def test_a_name_that_is_none() -> None:
    """C046: whatever a file has for a host, it costs that server alone."""
    async with running() as house:
        odd, far = house.add("odd", f"http://{'a' * 70}.example/mcp"), house.add("far", LAN)
        await house.become(CONTAINERS)
        assert offline(odd) and offline(far)
        await house.become(HOME)
        assert not far.severed


async def test_nothing_is_said_of_nothing() -> None:
    """A machine that stays as it is has nothing in its log, however often it is looked at."""
    async with running() as house:
        house.add("far", FAR, Connected(0))
        house.add("private", PRIVATE)
        house.lines.clear()
        await house.become(HOME)
        await house.become(HOME)
        assert house.lines == []


