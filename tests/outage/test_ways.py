"""What the networks of a moment come to, and what is different from one to the next."""

from __future__ import annotations

import pytest

from mcphub.outage.ways import ANYWHERE, Change, Network, Standing, Way, Ways, came, change

V4, V6 = ANYWHERE
WIFI, WIFI6, LAN, VPN = Way("192.168.1.5", 2), Way("2001:db8:1::5", 2), Way("192.168.7.9", 3), Way("10.8.0.2", 5)
HOME = frozenset(["192.168.1.5"])


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Network({}), Standing.OFFLINE),
        (Network({V4: None, V6: None}), Standing.OFFLINE),
        # a bridge of containers, an isolated lab: addresses, and no way out
        (Network({V4: None, V6: None}, frozenset(["172.17.0.1"])), Standing.LOCAL),
        (Network({V4: WIFI, V6: None}, HOME), Standing.ONLINE),
        (Network({V4: None, V6: WIFI6}, HOME), Standing.ONLINE),
        # a way that needs no address of its own: a tunnel without numbers
        (Network({V4: VPN}), Standing.ONLINE),
    ],
)
def test_standing(network: Network, expected: Standing) -> None:
    """Online is a way to the Internet, by either protocol; an address without one is not."""
    assert network.standing is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), (), Change.NONE),
        ((WIFI,), (WIFI,), Change.NONE),
        ((WIFI, WIFI6), (WIFI, WIFI6), Change.NONE),
        ((WIFI,), (), Change.CUT),
        ((WIFI, WIFI6), (), Change.CUT),
        ((), (WIFI,), Change.BACK),
        ((), (VPN,), Change.BACK),
        # from the cable to the radio, into a tunnel, another address by the same interface, one protocol more or less
        ((LAN,), (WIFI,), Change.MOVED),
        ((WIFI,), (VPN,), Change.MOVED),
        ((WIFI,), (Way("192.168.1.6", 2),), Change.MOVED),
        ((WIFI, WIFI6), (WIFI,), Change.MOVED),
        ((WIFI,), (WIFI, WIFI6), Change.MOVED),
    ],
)
def test_change(before: Ways, after: Ways, expected: Change) -> None:
    """A host is cut off only when no way is left, and whatever is another one may have broken what was open."""
    assert change(before, after) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [([], [], False), (["a"], ["a"], False), (["a", "b"], ["a"], False), ([], ["a"], True), (["a"], ["b"], True)],
)
def test_what_came(before: list[str], after: list[str], expected: bool) -> None:
    """A network that was joined is told by the machine's address in it; one that was left is not."""
    assert came(Network({}, frozenset(before)), Network({}, frozenset(after))) is expected


def test_ways_to_a_host() -> None:
    """A host of several addresses is reached by any of them, each way once; what was not asked for is no way."""
    network = Network({"10.0.0.1": VPN, "10.0.0.2": None, "192.168.1.9": WIFI, "192.168.1.8": WIFI})
    assert network.to(("10.0.0.2",)) == ()
    assert network.to(("10.0.0.2", "10.0.0.1")) == (VPN,)
    assert network.to(("192.168.1.8", "192.168.1.9", "10.0.0.1")) == (WIFI, VPN)
    assert network.to(("10.9.9.9",)) == ()
    assert network.to(()) == ()
