"""Owns the JSON of the control API: bodies in, reports and errors out, and the request as a handler sees it.

It must not know sockets, ASGI or the daemon. Reports are the types of mcphub/status.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from mcphub.errors import ControlError
from mcphub.transport.peer import Peer

#: The word for each HTTP status that the API answers with; the message is for people, this is for programs.
KINDS: Mapping[int, str] = {
    400: "bad_request",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    431: "too_large",
    500: "internal",
    503: "unavailable",
}


class Request(msgspec.Struct, frozen=True):
    """One request, read whole: path parameters, the first value of each query parameter, the body."""

    peer: Peer
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    @property
    def workspace(self) -> str:
        return self.query.get("workspace", "")


class Reply(msgspec.Struct, frozen=True):
    """A report, and optionally what to do once it is written."""

    report: object
    then: Callable[[], None] | None = None


class _Body(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What every body may say. An unknown field is refused: a misspelt one would silently do something else."""

    workspace: str = ""


class CallBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/call`."""

    tool: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class ReconnectBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/reconnect`; without a name, all."""

    name: str | None = None


class ApproveBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/approve`; `digest` is the one that was shown."""

    name: str
    digest: str


class ApproveToolsBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/approve-tools`; `digest` is the one that was shown."""

    name: str
    digest: str


class RejectBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/reject`."""

    name: str


class AddServerBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/servers`; `entry` is one of `mcpServers`. `workspace` is whose agents see it, "" = all."""

    name: str
    entry: dict[str, Any]
    keep: bool = False


class UnlockBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/vault/unlock`."""

    passphrase: str | None = None
    start_over: bool = False

    def __repr__(self) -> str:
        return "UnlockBody(...)"


class RotateBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/vault/rotate`."""

    passphrase: str | None = None

    def __repr__(self) -> str:
        return "RotateBody(...)"


class SecretBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/secret`."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"SecretBody({self.name!r}, ...)"


class LoginBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/servers/NAME/login`."""


class LogoutBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/servers/NAME/logout`, and for all `POST /v1/logout`."""


class PasteBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/servers/NAME/paste`; `url` is the one that the browser was sent to."""

    url: str

    def __repr__(self) -> str:
        return "PasteBody(...)"


class ReloadBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/reload`."""


class StopBody(_Body, frozen=True, kw_only=True):
    """`POST /v1/stop`. `restart`: another daemon comes next, in which agents behind `mcphub connect` go on."""

    restart: bool = False


B = TypeVar("B", bound=_Body)


def read_body(body: bytes, kind: type[B]) -> B:
    """Decode a body; an empty one is `{}`. Raises ControlError 400 that says which field is wrong."""
    try:
        body.decode("utf-8")  # the decoder below passes what it need not look at
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ControlError(f"cannot read the request body: {error}", status=400) from None
    except RecursionError:
        raise ControlError("cannot read the request body: it is nested too deeply", status=400) from None


def one_line(raw: msgspec.Raw) -> bytes:
    """The JSON object as the client wrote it, on one line: inside JSON text a line break is only ever white space.

    Raises ControlError 400 for anything but an object."""
    data = bytes(raw).strip(b" \t\r\n").replace(b"\n", b" ").replace(b"\r", b" ")
    if not data.startswith(b"{"):
        raise ControlError("cannot read the request body: `arguments` must be a JSON object", status=400)
    return data


def whole_number(query: Mapping[str, str], key: str, default: int) -> int:
    """A query parameter that counts something. Raises ControlError 400."""
    text = query.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ControlError(f"cannot read `{key}`: it must be a whole number, not {text[:20]!r}", status=400)
    return int(text)


def flag(query: Mapping[str, str], key: str) -> bool:
    """A query parameter that is on (`1`, `true`) or off (`0`, `false`, absent). Raises ControlError 400."""
    text = query.get(key, "")
    if text in ("1", "true"):
        return True
    if text in ("", "0", "false"):
        return False
    raise ControlError(f"cannot read `{key}`: it must be 1 or 0, not {text[:20]!r}", status=400)


def write_report(report: object) -> bytes:
    """The report as one line of JSON. File names that are not UTF-8 are written as escapes, which other JSON is not."""
    try:
        return msgspec.json.encode(report) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(report, separators=(",", ":")).encode("ascii") + b"\n"


def write_error(status: int, message: str) -> bytes:
    """`{"error": {"message": ..., "kind": ...}}`, one line."""
    return write_report({"error": {"message": message, "kind": KINDS.get(status, "error")}})
