"""What a host says by itself."""

from __future__ import annotations

import pytest

from mcphub.address import address, is_loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("x.localhost", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::2", False),
        ("localhost.example", False),
        ("notlocalhost", False),
        ("", False),
    ],
)
def test_loopback_by_name(host: str, loopback: bool) -> None:
    """A name that merely looks like this machine is not this machine."""
    assert is_loopback(host) is loopback


def test_addresses() -> None:
    """Brackets are no part of an address; a name is none."""
    assert str(address("[fe80::1]")) == "fe80::1"
    assert str(address("10.1.2.3")) == "10.1.2.3"
    assert address("h.example") is None
    assert address("10.0.0.256") is None
