"""A daemon on a machine whose networks go and come: real links of the kernel's, real servers at their other ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.fakes.agent import text
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, row, start
from tests.fakes.namespaces import Namespace, namespace
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import Reply, Request, RudeHttp, empty

pytestmark = pytest.mark.anyio

FLEET = [f"f{n}" for n in range(40)]
FAR = ["far", "modern", *FLEET]
ALL = [*FAR, "vpn", "here", "prog"]


@dataclass
class Laptop:
    """The daemon is in `home`, behind the link `radio` are `far` and its fleet, behind `tunnel` is `vpn`. `times` are
    those at which a server of the fleet was begun."""

    hub: Hub
    home: Namespace
    far: RudeHttp
    modern: RudeHttp
    vpn: RudeHttp
    times: list[float] = field(default_factory=list)

    async def switch(self, link: str, to: str) -> None:
        await self.home.ip(f"link set {link} {to}")

    def log(self, since: int = 0) -> list[str]:
        """What the daemon logged of networks."""
        lines = [json.loads(line)["message"] for line in self.hub.stderr()[since:].splitlines()]
        return [line for line in lines if any(word in line for word in ("network", "a way to", "no way to", "online"))]

    async def until_offline(self, *names: str) -> dict[str, Any]:
        return await self.hub.until(lambda r: all(row(r, name)["state_text"] == "pending (offline)" for name in names))


@asynccontextmanager
async def daemon(place: Place, servers: dict[str, Any], under: Sequence[str]) -> AsyncIterator[Hub]:
    place.configure(servers)
    process = await start(place, {}, under)
    hub = Hub(place, process)
    try:
        yield hub
        await hub.stop()
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


@pytest.fixture(scope="module")
async def laptop() -> AsyncIterator[Laptop]:
    """Started without any network."""
    times: list[float] = []
    mcp = OrdinaryMcp()

    def timed(request: Request) -> Reply:
        if request.key == "initialize":
            times.append(anyio.current_time())
        # None is kept: what is tested is the way to the server, not a connection from an address of before.
        return mcp(request).with_headers(("Connection", "close"))

    place = Place()
    try:
        async with AsyncExitStack() as stack:
            home = await stack.enter_async_context(namespace())
            world = await stack.enter_async_context(namespace(home))
            await home.ip(
                f"""
                link add radio type veth peer name radio netns {world.pid}
                link add tunnel type veth peer name tunnel netns {world.pid}
                addr add 10.77.0.1/24 dev radio
                addr add 10.88.0.1/24 dev tunnel
                """
            )
            await world.ip(
                """
                addr add 10.77.0.2/24 dev radio
                addr add 10.88.0.2/24 dev tunnel
                link set radio up
                link set tunnel up
                """
            )

            async def serving(there: Namespace, host: str, mcp: Any) -> RudeHttp:
                return await stack.enter_async_context(RudeHttp(mcp, listener=there.listening(host)))

            far, vpn = await serving(world, "10.77.0.2", timed), await serving(world, "10.88.0.2", OrdinaryMcp())
            modern = await serving(world, "10.77.0.2", OrdinaryMcp("modern"))
            here = await serving(home, "127.0.0.1", OrdinaryMcp())
            urls = {"far": far.url, "modern": modern.url, "vpn": vpn.url, "here": here.url}
            urls |= {name: f"{far.url}?{name}" for name in FLEET}
            servers = {name: {"type": "http", "url": url} for name, url in urls.items()}
            hub = await stack.enter_async_context(daemon(place, {**servers, "prog": Fake()}, home.under))
            yield Laptop(hub, home, far, modern, vpn, times)
    finally:
        place.remove()


async def test_the_first_network(laptop: Laptop) -> None:
    """C085: without a network nothing far is tried, and the status says so; servers on this machine are there. With one
    all are connected in moments, not all in the same, and the log has a line for each change."""
    hub = laptop.hub
    await hub.until_state("here", "prog")
    report = await laptop.until_offline("vpn", *FAR)
    assert report["daemon"]["network"]["standing"] == "offline"
    assert report["daemon"]["network"]["waiting"] == len(FAR) + 1
    found = row(report, "far")
    assert (found["state"], found["attempt"], found["retry_in"], found["last_error"]) == ("pending", None, None, None)
    assert laptop.far.requests == laptop.modern.requests == laptop.vpn.requests == []
    shown = await anyio.run_process([str(MCPHUB), "status"], env=hub.place.environment())
    since = report["daemon"]["network"]["since"]
    assert f"; offline since {since}, 43 servers wait" in shown.stdout.decode().splitlines()[0]
    said = "offline: no network; no way to f0, f1, f10, f11, f12 and 38 more, not tried until there is one"
    assert laptop.log() == [said]
    begun = anyio.current_time()
    await laptop.switch("radio", "up")
    report = await hub.until_state(*FAR)
    assert anyio.current_time() - begun < 5
    assert row(report, "vpn")["state_text"] == "pending (offline)"
    assert all(row(report, name)["last_error"] is None for name in FAR)
    assert max(laptop.times) - min(laptop.times) > 0.3
    assert laptop.log()[1:] == [
        "offline: no way out of the local networks; there is a way to f0, f1, f10, f11, f12 and 37 more again"
    ]
    await laptop.switch("tunnel", "up")
    await hub.until_state("vpn")


async def test_a_vpn_that_ends_and_comes_back(laptop: Laptop) -> None:
    """C085: what it led to is not tried meanwhile, and nothing is counted; nobody else is disturbed, and an agent is
    told what is the matter; when it is back the server is connected at once, though its last delay would be long."""
    hub, vpn = laptop.hub, laptop.vpn
    await hub.until_state(*ALL)
    vpn.on("*", empty(503), times=None)
    await hub.reconnect("vpn")
    await hub.until(lambda report: (row(report, "vpn")["attempt"] or 0) >= 2)
    asked, others, begun = len(vpn.requests), len(laptop.far.requests), len(hub.stderr())
    await laptop.switch("tunnel", "down")
    report = await laptop.until_offline("vpn")
    assert all(row(report, name)["state"] == "connected" for name in ALL if name != "vpn")
    assert report["daemon"]["network"] == {**report["daemon"]["network"], "standing": "local", "waiting": 1}
    await hub.reconnect("vpn")
    async with await hub.agent() as agent:
        await agent.initialize()
        answer = await agent.call("mcp__vpn__echo", {"text": "x"})
        assert answer["result"]["isError"] is True and "no way to the server's host" in text(answer)
        assert text(await agent.call("mcp__here__echo", {"text": "x"})) is not None
    assert len(vpn.requests) == asked
    vpn.forget()
    back = anyio.current_time()
    await laptop.switch("tunnel", "up")
    await hub.until_state("vpn")
    assert anyio.current_time() - back < 1.8  # the third retry would be 4 s after the second
    assert len(laptop.far.requests) == others
    assert [line for line in laptop.log(begun) if "vpn" in line] == [
        "no way to vpn, not tried until there is one",
        "there is a way to vpn again",
    ]


async def test_a_network_that_was_left_for_a_moment(laptop: Laptop) -> None:
    """Connections that were open are not thrown away, however many calls fail meanwhile, which are told that the
    machine is offline: each is asked the least that its era allows, and goes on."""
    hub = laptop.hub
    before = await hub.until_state(*ALL)
    pings, looks = len(laptop.far.sent("ping")), len(laptop.modern.sent("server/discover"))
    begun = len(laptop.times)
    await laptop.switch("radio", "down")
    report = await hub.until(lambda report: row(report, "far")["warnings"] != row(before, "far")["warnings"])
    assert row(report, "far")["state"] == "connected"
    assert "no way to its host now" in row(report, "far")["warnings"][0]
    _, why = await hub.control("GET", "/v1/why/far")
    assert "no way to its host now" in why["answer"] and why["steps"][-1]["verdict"] == "unknown"
    shown = await anyio.run_process([str(MCPHUB), "why", "far"], env=hub.place.environment())
    assert "connection  ?    connected, " in shown.stdout.decode()
    shown = await anyio.run_process([str(MCPHUB), "status"], env=hub.place.environment())
    line = next(line for line in shown.stdout.decode().splitlines() if line.startswith("far "))
    assert line.partition("/mcp.json:")[2].split()[1:4] == ["this", "machine", "has"]  # before all else that is odd
    async with await hub.agent() as agent:
        await agent.initialize()
        for name in ["far", "modern"] * 5:
            answer = await agent.call(f"mcp__{name}__echo", {"text": "x"})
            assert "this machine is offline, or has no way to the server's host" in json.dumps(answer), name
    assert row(await hub.status(), "far")["state"] == row(await hub.status(), "modern")["state"] == "connected"
    await laptop.switch("radio", "up")
    await laptop.far.until(lambda: len(laptop.far.sent("ping")) == pings + len(FLEET) + 1)
    await laptop.modern.until(lambda: len(laptop.modern.sent("server/discover")) == looks + 1)
    await laptop.home.ip("route add default via 10.77.0.2")
    after = await hub.until(lambda report: report["daemon"]["network"]["standing"] == "online")
    assert len(laptop.times) == begun
    assert all(row(after, name)["uptime"] > row(before, name)["uptime"] for name in ALL)


async def test_another_address(laptop: Laptop) -> None:
    """The same where the machine got another address, without any moment offline."""
    hub = laptop.hub
    await hub.until_state(*ALL)
    pings, begun, said = len(laptop.far.sent("ping")), len(laptop.times), len(hub.stderr())
    await laptop.home.ip(
        """
        addr add 10.77.0.9/16 dev radio
        addr del 10.77.0.1/24 dev radio
        route replace default via 10.77.0.2
        """
    )
    await laptop.far.until(lambda: len(laptop.far.sent("ping")) == pings + len(FLEET) + 1)
    report = await hub.status()
    assert {name: row(report, name)["state"] for name in ALL} == dict.fromkeys(ALL, "connected")
    assert len(laptop.times) == begun
    assert [line for line in laptop.log(said) if line.endswith("42 open connections are looked at")] != []
