"""The loopback address: opened or a problem that says why not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mcphub.config.settings import HttpSettings
from mcphub.sessions.loopback import open_loopback


def test_off(tmp_path: Path) -> None:
    """Without a setting there is no socket, and no token is made."""
    found = open_loopback(HttpSettings(), str(tmp_path / "http-token"))
    assert (found.sock, found.url, found.problem, found.url_for("/mcp")) == (None, "", "", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_on(tmp_path: Path, host: str) -> None:
    """Row 15: it listens on the loopback alone; the URL for people holds the token, nothing else shows it."""
    found = open_loopback(HttpSettings(f"{host}:0"), str(tmp_path / "http-token"))
    assert found.sock is not None
    with found.sock:
        address, port = found.sock.getsockname()
        assert address == "127.0.0.1"
        assert found.url == f"http://127.0.0.1:{port}"
        assert found.url_for("/mcp/s/x") == f"http://127.0.0.1:{port}/t/{found.token}/mcp/s/x"
        assert found.token not in repr(found)
        assert not found.sock.get_inheritable()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """The daemon goes on without it, and says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        found = open_loopback(HttpSettings(listen), str(tmp_path / "http-token"))
    assert found.sock is None
    assert listen in found.problem
    assert "settings.toml, [http] listen" in found.problem


def test_a_token_that_cannot_be_used(tmp_path: Path) -> None:
    """Nothing is served without one."""
    (tmp_path / "http-token").write_text("x", "utf-8")
    found = open_loopback(HttpSettings("127.0.0.1:0"), str(tmp_path / "http-token"))
    assert found.sock is None
    assert "http-token" in found.problem
