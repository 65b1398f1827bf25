"""Owns the loopback address that agents may be served on: opened once, with the token that they must bring.

It must not serve anything. What cannot be had is a problem that is shown, never a daemon that does not start.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from mcphub.config.settings import HttpSettings, listen_address
from mcphub.errors import ConfigError
from mcphub.store.http_token import http_token


@dataclass(frozen=True, slots=True)
class Loopback:
    """`sock` listens, None = nothing is served over TCP. `url` is its scheme and authority. `problem` says why a wanted
    address is not served, "" = nothing is wrong."""

    sock: socket.socket | None = None
    url: str = ""
    token: str = field(default="", repr=False)
    problem: str = ""

    def url_for(self, path: str) -> str | None:
        """The URL of an endpoint's path with the token in it, None while nothing is served."""
        return f"{self.url}/t/{self.token}{path}" if self.sock is not None else None


def open_loopback(settings: HttpSettings, token_path: str) -> Loopback:
    """What the settings ask for. Blocking."""
    listen = listen_address(settings.listen)
    if listen is None:
        return Loopback()
    try:
        token = http_token(token_path)
    except ConfigError as error:
        return Loopback(problem=f"cannot serve agents at {settings.listen}: {error}")
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        sock = socket.create_server((listen.host, listen.port), family=family)
    except OSError as error:
        cause = error.strerror or str(error)
        text = f"cannot serve agents at {settings.listen}: {cause}; choose another port in settings.toml, [http] listen"
        return Loopback(problem=text)
    sock.setblocking(False)
    host, port = sock.getsockname()[:2]
    return Loopback(sock, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}", token)
