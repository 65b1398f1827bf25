"""Owns what outages mean for servers: which are not tried for the time being, and which are tried or looked at at once
when a network is there again, is another one, or the machine wakes.

It must not know how the system is asked, nor touch a connection: workers are told. Servers on this machine, and
programs, have nothing to do with any of it. One line is logged for what happened, not one for each server.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import anyio

from mcphub.address import address, is_loopback
from mcphub.config.urls import DEFAULT_PORTS, split_url
from mcphub.connection.machine import Connected
from mcphub.connection.worker import Worker
from mcphub.outage import kernel
from mcphub.outage.news import News
from mcphub.outage.ways import ANYWHERE, Change, Network, Standing, Ways, came, change
from mcphub.outbound.lookup import look_up
from mcphub.outbound.proxies import proxy_for
from mcphub.spec import HttpSpec, ServerSpec
from mcphub.supervisor.supervisor import Supervisor

#: Those that are tried at once are tried one after the other, so many seconds apart, but the last no later than that;
#: how many may be on their way at the same time is a matter of the start-up limiter.
APART = 0.02
ALL_WITHIN = 5.0
#: A network that is joined and leads to nothing that is known is worth a try of what is down, at most this often,
#: seconds: some machines join and leave one with each container.
TRY_EVERY = 30.0
#: How long the name of a host may take to be looked up while there is no way to the Internet, and how often that is
#: done while it leads nowhere, seconds.
NAME_LIMIT = 1.0
NAMES_EVERY = 60.0
#: Seconds until it is tried again to follow what happens.
AGAIN = 60.0
_NEW = (Change.MOVED, Change.BACK)
#: Names of servers in one line of the log.
NAMED = 5

_SPAN = ((86400, "d"), (3600, "h"), (60, "min"))
_STANDS = {
    Standing.ONLINE: "online",
    Standing.LOCAL: "offline: no way out of the local networks",
    Standing.OFFLINE: "offline: no network",
}


def host_of(spec: ServerSpec, env: Mapping[str, str]) -> str | None:
    """The host that must be reached for a server: its own, or that of the proxy on the way. None = none, it is on this
    machine; "" = one that cannot be told."""
    if not isinstance(spec.transport, HttpSpec):
        return None
    parts = split_url(str(spec.transport.url))
    if parts is None or not parts.hostname or is_loopback(parts.hostname):
        return None
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    via, _ = proxy_for(scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme, 443), env)
    if not via:
        return parts.hostname
    proxy = split_url(via)
    # What a proxy on this machine is connected to, only it knows.
    return "" if proxy is None or not proxy.hostname or is_loopback(proxy.hostname) else proxy.hostname


def delays(count: int, chance: Callable[[], float]) -> list[float]:
    """When each of so many is tried, seconds from now, in no order; `chance` in 0..1."""
    step = min(APART, ALL_WITHIN / max(count, 1))
    found = [(number + chance()) * step for number in range(count)]
    return sorted(found, key=lambda _: chance())


class Outages:
    """Of one daemon. `network` is what was there at the last look, `since` when it began to stand as it does (seconds
    since 1970). `environment` is the hub's."""

    def __init__(
        self,
        supervisor: Supervisor,
        environment: Callable[[], Mapping[str, str]],
        log: Callable[[str, str], None],
        look: Callable[[Iterable[str]], Network] = kernel.look,
        news: Callable[[], News] = News,
    ) -> None:
        self._supervisor = supervisor
        self._environment = environment
        self._log = log
        self._look = look
        self._news = news
        self._chance = random.Random().random
        self.network = look(())
        self.since = _now()
        #: By host, as it was reached when it was last looked at.
        self._ways: dict[str, Ways] = {}
        #: Names, by what they led to when there was no way to the Internet.
        self._names: dict[str, tuple[str, ...]] = {}
        self._tried = float("-inf")
        #: There is a host that was not looked at.
        self._unknown = anyio.Event()
        supervisor.joined = self._joined

    @property
    def standing(self) -> Standing:
        return self.network.standing

    @property
    def waiting(self) -> int:
        """Servers that are not tried, since there is no way to them."""
        workers = self._supervisor.workers.values()
        cut = [worker.spec for worker in workers if worker.severed and not isinstance(worker.state, Connected)]
        return len({(spec.name, spec.origin) for spec in cut})  # one server may have several instances

    async def run(self) -> None:
        """Look whenever something may be different, until cancelled."""
        while True:
            try:
                await self._follow()
            except OSError as e:
                self._log("warning", f"cannot follow what happens to the networks: {e}; tried again in {AGAIN:.0f} s")
            await anyio.sleep(AGAIN)

    async def _follow(self) -> None:
        if severed := [worker for worker in self._supervisor.workers.values() if worker.severed]:
            stands = "" if self.standing is Standing.ONLINE else f"{_STANDS[self.standing]}; "
            self._log("warning", f"{stands}no way to {_names(severed)}, not tried until there is one")
        with self._news() as news:
            asleep = 0.0
            while True:
                await self._look_again(asleep)
                asleep = await self._next(news)

    async def _next(self, news: News) -> float:
        """Until it is to be looked again; for how many seconds the machine slept."""
        asleep = 0.0
        with anyio.move_on_after(NAMES_EVERY if self._named_in_vain() else None):
            async with anyio.create_task_group() as tasks:

                async def known() -> None:
                    await self._unknown.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(known)
                asleep = await news.wait()
                tasks.cancel_scope.cancel()
        return asleep

    def _named_in_vain(self) -> bool:
        if self.standing is not Standing.LOCAL:
            return False
        return any(address(host) is None and not ways for host, ways in self._ways.items() if host)

    # --- looking -----------------------------------------------------------------------------------------------------

    def _joined(self, worker: Worker) -> None:
        """A new one: it is not tried where nothing leads to it."""
        host = host_of(worker.spec, self._environment())
        if not host:
            return
        if host not in self._ways:
            known = self._addresses(host)
            self._ways[host] = self._look(known).to(known)
            if not self._ways[host] and address(host) is None:
                self._unknown.set()  # its name has to be looked up first
        if not self._ways[host]:
            worker.sever()

    def _addresses(self, host: str) -> tuple[str, ...]:
        """What a host is reached by, as far as it is known."""
        where = address(host)
        if where is not None:
            # One that holds on one link only: which link is up says its own name alone.
            return ANYWHERE if where.is_link_local else (str(where),)
        return ANYWHERE if self.standing is Standing.ONLINE else self._names.get(host, ())

    async def _look_again(self, asleep: float) -> None:
        self._unknown = anyio.Event()
        before = self.network
        self.network = self._look(())
        env = self._environment()
        found = {worker: host_of(worker.spec, env) for worker in self._supervisor.workers.values()}
        remote = {worker: host for worker, host in found.items() if host is not None}
        hosts = [host for host in dict.fromkeys(remote.values()) if host]
        if self.standing is not Standing.ONLINE:
            self._names = await self._looked_up([host for host in hosts if address(host) is None])
        by_host = {host: self._addresses(host) for host in hosts}
        self.network = self._look([one for addresses in by_host.values() for one in addresses])
        ways = {host: self.network.to(addresses) for host, addresses in by_host.items()}
        old, self._ways = self._ways, ways
        if self.network.standing is not before.standing:
            lasted, self.since = _now() - self.since, _now()
        else:
            lasted = 0.0
        self._tell(remote, old, before, lasted, asleep)

    async def _looked_up(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What these lead to: a file of hosts, or a network's own directory, may know them."""
        found: dict[str, tuple[str, ...]] = {}

        async def one(name: str) -> None:
            try:
                answers = await look_up(name)
            except (OSError, UnicodeError):
                return
            found[name] = tuple(dict.fromkeys(str(where[0]) for *_, where in answers))

        with anyio.move_on_after(NAME_LIMIT):
            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(one, name)
        return found

    # --- telling -----------------------------------------------------------------------------------------------------

    def _tell(
        self, remote: Mapping[Worker, str], old: Mapping[str, Ways], before: Network, lasted: float, asleep: float
    ) -> None:
        now = asyncio.get_running_loop().time()
        other = came(before, self.network) and now - self._tried >= TRY_EVERY
        cut: list[Worker] = []
        back: list[Worker] = []
        again: list[Worker] = []
        for worker, host in remote.items():
            ways = self._ways[host] if host else self.network.anywhere
            was = old.get(host, ways) if host else before.anywhere
            if host and not ways:
                if not worker.severed:
                    cut.append(worker)
            elif worker.severed:
                back.append(worker)
            elif asleep or change(was, ways) in _NEW or (other and not isinstance(worker.state, Connected)):
                again.append(worker)
        if other and again:
            self._tried = now
        for worker in cut:
            worker.sever()
        looked_at = [worker for worker in again if isinstance(worker.state, Connected)]
        for worker, delay in zip([*back, *again], delays(len(back) + len(again), self._chance), strict=True):
            worker.restore(delay)
        if self.network.standing is not before.standing:
            self._supervisor.snapshot.touch()
        self._say(cut, back, len(again) - len(looked_at), len(looked_at), before, lasted, asleep)

    def _say(
        self,
        cut: Sequence[Worker],
        back: Sequence[Worker],
        tried: int,
        checked: int,
        before: Network,
        lasted: float,
        asleep: float,
    ) -> None:
        """All that happened as one line."""
        stands = self.network.standing
        parts = [f"the machine slept for {_span(asleep)}"] if asleep else []
        if stands is not before.standing:
            parts.append(_STANDS[stands] + (f" again after {_span(lasted)}" if stands is Standing.ONLINE else ""))
        elif tried + checked and not asleep:
            parts.append("the networks have changed")
        if cut:
            parts.append(f"no way to {_names(cut)}, not tried until there is one")
        if back:
            parts.append(f"there is a way to {_names(back)} again")
        if tried:
            parts.append(f"{tried} tried at once")
        if checked:
            parts.append(f"{checked} open {'connection is' if checked == 1 else 'connections are'} looked at")
        if parts:
            self._log("warning" if cut else "info", "; ".join(parts))


def _names(workers: Sequence[Worker]) -> str:
    found = sorted({worker.name for worker in workers})
    rest = len(found) - NAMED
    return ", ".join(found[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _span(seconds: float) -> str:
    for size, unit in _SPAN:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _now() -> float:
    return time.time_ns() / 1e9
