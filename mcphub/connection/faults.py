"""Owns the kinds of fault a connection can have: whether trying again may help, what a person should do.

It must not raise, log or know states. One table, so that trouble becomes advice in one place.
"""

from __future__ import annotations

import enum

import msgspec


class FaultKind(enum.StrEnum):
    CONFIG = "config"
    NOT_FOUND = "not_found"
    SPAWN = "spawn"
    EXITED = "exited"
    NO_ANSWER = "no_answer"
    NOT_PROTOCOL = "not_protocol"
    CONTENT_LENGTH = "content_length"
    REFUSED = "refused"
    PINNED_ERA = "pinned_era"
    LIST_FAILED = "list_failed"
    TOO_LARGE = "too_large"
    LOST = "lost"
    UNRESPONSIVE = "unresponsive"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    HTTP_STATUS = "http_status"
    HTTP_UNAVAILABLE = "http_unavailable"
    NEEDS_AUTH = "needs_auth"
    SESSION_EXPIRED = "session_expired"
    INTERNAL = "internal"


class Advice(msgspec.Struct, frozen=True):
    """`transient`: the same start may succeed a moment later."""

    transient: bool
    remedy: str


ADVICE: dict[FaultKind, Advice] = {
    FaultKind.CONFIG: Advice(False, "correct the entry, then run `mcphub reconnect {name}`"),
    FaultKind.NOT_FOUND: Advice(
        False,
        "install the program, or name it by its absolute path, or put its folder on PATH "
        "(`mcphub env path` shows it), then run `mcphub reconnect {name}`",
    ),
    FaultKind.SPAWN: Advice(True, "see the cause above, then run `mcphub reconnect {name}`"),
    FaultKind.EXITED: Advice(True, "read `mcphub logs {name}`; the program ends by itself"),
    FaultKind.NO_ANSWER: Advice(
        True, "run the command by hand and see whether it starts; a slow first start may need a larger `startupTimeout`"
    ),
    FaultKind.NOT_PROTOCOL: Advice(
        True, "make the program write its logs to stderr: stdout is for the protocol; see `mcphub logs {name}`"
    ),
    FaultKind.CONTENT_LENGTH: Advice(False, "the program speaks the framing of language servers; start it in MCP mode"),
    FaultKind.REFUSED: Advice(False, "update the server: it and mcphub have no protocol version in common"),
    FaultKind.PINNED_ERA: Advice(
        False,
        "take `era` out of the entry, so that mcphub finds out which one the server speaks, then run "
        "`mcphub reconnect {name}`",
    ),
    FaultKind.LIST_FAILED: Advice(True, "read `mcphub logs {name}`; the server cannot say which tools it has"),
    FaultKind.TOO_LARGE: Advice(True, "the server sent one message above the limit of 64 MiB"),
    FaultKind.LOST: Advice(True, "mcphub reconnects by itself; `mcphub reconnect {name}` tries at once"),
    FaultKind.UNRESPONSIVE: Advice(
        True,
        "mcphub starts it anew by itself; where it answers nothing while it works, give the entry "
        '"healthCheck": false, or set `[health] timeout`; see `mcphub logs {name}`',
    ),
    FaultKind.UNREACHABLE: Advice(
        True, "check the url, the network and, where one is needed, HTTPS_PROXY or HTTP_PROXY; mcphub goes on trying"
    ),
    FaultKind.TLS: Advice(
        False,
        "where a certificate is refused that your own company signs, name that of the company by SSL_CERT_FILE or "
        "NODE_EXTRA_CA_CERTS in the hub's environment file; else correct what the reason names; then run `mcphub "
        "reconnect {name}`",
    ),
    FaultKind.HTTP_STATUS: Advice(
        False,
        "check the url and `headers` of the entry, and its type: `http` for Streamable HTTP, `sse` for servers of the "
        "older HTTP+SSE transport; where it is its tokens that cannot be had, ask whoever runs the sign-in that is "
        "named",
    ),
    FaultKind.HTTP_UNAVAILABLE: Advice(
        True, "the server, or what stands in front of it, is in trouble or busy; mcphub goes on trying"
    ),
    FaultKind.NEEDS_AUTH: Advice(
        False,
        "sign in: `mcphub login {name}`; where there is no sign-in, set a header that the server accepts in `headers`, "
        "then run `mcphub reconnect {name}`",
    ),
    FaultKind.SESSION_EXPIRED: Advice(True, "mcphub begins a new session by itself"),
    FaultKind.INTERNAL: Advice(True, "this is a fault of mcphub: please report it with the daemon's log"),
}


#: What a `TransportError.kind` means for the connection; the others are told by other signs.
BY_TRANSPORT: dict[str, FaultKind] = {
    "not_found": FaultKind.NOT_FOUND,
    "config": FaultKind.CONFIG,
    "unreachable": FaultKind.UNREACHABLE,
    "tls": FaultKind.TLS,
    "lost": FaultKind.LOST,
    "no_response": FaultKind.NO_ANSWER,
    "refused": FaultKind.HTTP_STATUS,
    "older": FaultKind.HTTP_STATUS,
    "rate_limited": FaultKind.HTTP_UNAVAILABLE,
    "status": FaultKind.HTTP_UNAVAILABLE,
    "needs_auth": FaultKind.NEEDS_AUTH,
}


class Fault(msgspec.Struct, frozen=True):
    """One fault. `phase`: config, spawn, probe, handshake, list, serve. `stderr` is the tail at that moment, `stdout`
    what came last there and was no message."""

    kind: FaultKind
    phase: str
    message: str
    exit_code: int | None = None
    stderr: tuple[str, ...] = msgspec.field(default=())
    at: float = 0.0
    #: Seconds that the server wants to be left alone.
    retry_after: float = 0.0
    #: What a person should do, where more is known than the kind says.
    advice: str = ""
    stdout: tuple[str, ...] = msgspec.field(default=())

    @property
    def transient(self) -> bool:
        return ADVICE[self.kind].transient

    def remedy(self, name: str) -> str:
        return (self.advice or ADVICE[self.kind].remedy).format(name=name)
