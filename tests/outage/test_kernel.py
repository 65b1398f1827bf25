"""What the system says of its networks and clocks: a real kernel, networks of the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from mcphub.outage.kernel import clocks, look
from mcphub.outage.ways import ANYWHERE, Network, Standing, Way
from tests.fakes.hub import eventually
from tests.fakes.namespaces import Namespace, namespace

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[tuple[Namespace, Namespace]]:
    """A machine and what is at the other end of its only cable."""
    async with namespace() as here, namespace(here) as there:
        await here.ip(f"link add cable type veth peer name cable netns {there.pid}")
        await there.ip("link set cable up")
        yield here, there


#: A process of its own: of what psutil reads, some is of a process and not of a thread.
SCRIPT = """
import json, sys
from mcphub.outage.kernel import by_sockets
network = by_sockets(json.loads(sys.argv[1]))
ways = {to: way and way.source for to, way in network.ways.items()}
print(json.dumps([sorted(network.addresses), ways]))
"""


def ask_in_a_process(here: Namespace, addresses: Sequence[str]) -> Network:
    command = [*here.under, sys.executable, "-c", SCRIPT, json.dumps(list(addresses))]
    own, ways = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return Network({to: Way(source) if source else None for to, source in ways.items()}, frozenset(own))


def ask_in_a_thread(here: Namespace, addresses: Sequence[str]) -> Network:
    return here.inside(lambda: look(addresses))


@pytest.mark.parametrize("ask", [ask_in_a_thread, ask_in_a_process], ids=["netlink", "sockets"])
async def test_one_network_after_another(
    house: tuple[Namespace, Namespace], ask: Callable[[Namespace, Sequence[str]], Network]
) -> None:
    """No network, one without a way out, one with it, and none again: each is seen as it is, and what a host is reached
    by names the machine's own address there."""
    here, _ = house

    def seen() -> tuple[Standing, list[str], dict[str, str]]:
        network = ask(here, ["10.1.0.2", "10.2.0.2", "127.0.0.1"])
        ways = {to: way.source for to, way in network.ways.items() if way is not None and to not in ANYWHERE}
        return network.standing, sorted(network.addresses), ways

    loopback = {"127.0.0.1": "127.0.0.1"}
    assert seen() == (Standing.OFFLINE, [], loopback)
    await here.ip("link set cable up\naddr add 10.1.0.1/24 dev cable")
    await eventually(lambda: seen() == (Standing.LOCAL, ["10.1.0.1"], {**loopback, "10.1.0.2": "10.1.0.1"}), timeout=5)
    await here.ip("route add 10.2.0.0/24 via 10.1.0.2")
    assert seen() == (Standing.LOCAL, ["10.1.0.1"], {**loopback, "10.1.0.2": "10.1.0.1", "10.2.0.2": "10.1.0.1"})
    await here.ip("route add default via 10.1.0.2")
    assert seen()[0] is Standing.ONLINE
    await here.ip("route add unreachable 203.0.113.0/24\nroute add prohibit 10.2.0.2")
    assert seen() == (Standing.LOCAL, ["10.1.0.1"], {**loopback, "10.1.0.2": "10.1.0.1"})
    await here.ip("link set cable down\naddr flush dev cable\nroute flush table main")
    assert seen() == (Standing.OFFLINE, [], loopback)


async def test_a_cable_without_an_end(house: tuple[Namespace, Namespace]) -> None:
    """Where nobody is at the other end Linux keeps addresses and routes, and leads to nothing by them."""
    here, there = house
    await here.ip("link set cable up\naddr add 10.1.0.1/24 dev cable\nroute add default via 10.1.0.2")
    await eventually(lambda: here.inside(look).standing is Standing.ONLINE, timeout=5)
    await there.ip("link set cable down")
    assert here.inside(look) == Network(dict.fromkeys(ANYWHERE))
    await there.ip("link set cable up")
    await eventually(lambda: here.inside(look).standing is Standing.ONLINE, timeout=5)
    await here.ip("link set cable down\naddr flush dev cable")


async def test_a_tunnel_by_rules(house: tuple[Namespace, Namespace]) -> None:
    """A VPN that leads by a table and a rule of its own is the way, as it is for a socket."""
    here, _ = house
    await here.ip(
        """
        link add tunnel type veth peer name end
        link set tunnel up
        link set end up
        addr add 10.8.0.2/32 dev tunnel
        route add default dev tunnel table 51820
        rule add not fwmark 51820 table 51820
        """
    )
    await eventually(lambda: here.inside(look).anywhere, timeout=5)
    for ask in (ask_in_a_thread, ask_in_a_process):
        assert {way.source for way in ask(here, []).anywhere} == {"10.8.0.2"}
    await here.ip("link del tunnel\nrule del not fwmark 51820 table 51820")


def test_clocks() -> None:
    """Those of this machine, which is awake: nothing is between two readings but the time in between."""
    before = clocks()
    after = clocks()
    assert 0 <= after.awake - before.awake < 1
    assert 0 <= after.always - before.always < 1
    assert before.awake <= time.monotonic()
    assert abs(before.wall - time.time_ns() / 1e9) < 5
    assert before.always >= before.awake
