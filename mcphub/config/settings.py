"""Owns the hub's settings: their names, types, limits and defaults.

It must not read a file or the process environment; servers are not settings, they live in mcp.json.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from .own_policy import belongs_to_policy
from .policy_keys import TABLE
from .toml import TomlError, parse_toml

Meta = msgspec.Meta


class NamesSettings(msgspec.Struct, frozen=True):
    """`[names]`: how tools are shown to agents. `max_length` counts characters of an exposed name."""

    max_length: Annotated[int, Meta(ge=24, le=128)] = 64


class ListsSettings(msgspec.Struct, frozen=True):
    """`[lists]`: `wait` is seconds a list waits for servers that start, or whose list has changed; 0 = not at all.
    `ttl`: how many seconds a modern agent may keep a list at most. `page_bytes`: what is larger comes in pages.
    `description_length`: characters of one title or description that agents see."""

    wait: Annotated[float, Meta(ge=0, le=60)] = 3.0
    ttl: Annotated[float, Meta(ge=0, le=86400)] = 60.0
    page_bytes: Annotated[int, Meta(ge=1024, le=32 * 1024 * 1024)] = 4 * 1024 * 1024
    description_length: Annotated[int, Meta(ge=256, le=1024 * 1024)] = 2048


class ConnectSettings(msgspec.Struct, frozen=True):
    """`[connect]`: `local` and `remote` openings at once, seconds of `timeout` for one, and how often one that fails
    for a reason that may pass is tried again before the server is `failed` (`attempts`, 0 = not at all)."""

    local: Annotated[int, Meta(ge=1, le=100)] = 3
    remote: Annotated[int, Meta(ge=1, le=200)] = 20
    timeout: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    attempts: Annotated[int, Meta(ge=0, le=100)] = 5


class HealthSettings(msgspec.Struct, frozen=True):
    """`[health]`: seconds of silence before a server without a call is asked whether it is there, 0 = never; `timeout`
    for its answer. An entry's `healthCheck` comes before `idle`."""

    idle: Annotated[float, Meta(ge=0, le=86400)] = 120.0
    timeout: Annotated[float, Meta(ge=1, le=600)] = 10.0


class CallSettings(msgspec.Struct, frozen=True):
    """`[call]`: seconds that a call may be without answer and without progress."""

    timeout: Annotated[float, Meta(ge=1, le=86400)] = 600.0


class LogsSettings(msgspec.Struct, frozen=True):
    """`[logs]`: bytes of stderr kept in memory for each server."""

    stderr_bytes: Annotated[int, Meta(ge=0, le=64 * 1024 * 1024)] = 1024 * 1024


class TraceSettings(msgspec.Struct, frozen=True):
    """`[trace]`: `begin`: requests whose agent names no trace (`traceparent`) get one, so that they can be followed
    through log, journal and server."""

    begin: bool = False


class LimitsSettings(msgspec.Struct, frozen=True):
    """`[limits]`: calls in flight at once, in the whole `hub`, to one `server`, to one `tool` (0 = any number) and of
    one `agent`; an entry's own come before `server` and `tool`. What is beyond waits, `waiting` of an agent for each,
    and more is refused. `agent_rate`: calls a second of one agent, 0 = any number, `agent_burst` of them together."""

    hub: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    server: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    tool: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    agent: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 10_000
    agent_rate: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    agent_burst: Annotated[int, Meta(ge=1, le=100_000)] = 20


class StopSettings(msgspec.Struct, frozen=True):
    """`[stop]`: seconds that calls in flight get to be answered when the daemon stops (`drain`), and that a server has
    for each step of the way out (`grace`: closed stdin, then SIGTERM, then SIGKILL)."""

    drain: Annotated[float, Meta(ge=0, le=600)] = 5.0
    grace: Annotated[float, Meta(ge=0, le=60)] = 2.0


class PinningSettings(msgspec.Struct, frozen=True):
    """`[pinning]`: what becomes of tools that are not as they were when a server was first used; `project` of servers
    that projects bring, `others` of all others."""

    project: Literal["withhold", "flag", "off"] = "withhold"
    others: Literal["withhold", "flag", "off"] = "flag"


class Listen(msgspec.Struct, frozen=True):
    """An address of the loopback. Port 0 = any free one, another at each start."""

    host: str
    port: int


class HttpSettings(msgspec.Struct, frozen=True):
    """`[http]`: `listen` is where agents are served over TCP (see `listen_address`), "" = nowhere."""

    listen: str = ""


class RootsSettings(msgspec.Struct, frozen=True):
    """`[roots]`: `allowed` are the directories of which servers may be told where an agent names them as its roots,
    each an absolute path, or one that begins with `~`; an agent's own project always belongs to them."""

    allowed: tuple[Annotated[str, Meta(pattern=r"^(/|~$|~/)")], ...] = ("~",)


class PluginsSettings(msgspec.Struct, frozen=True):
    """`[plugins]`: `directories` are the plugins, each an absolute path or one that begins with `~/`; none = those in
    the folder `plugins` of mcphub's data directory."""

    directories: tuple[str, ...] = ()


class WebappSettings(msgspec.Struct, frozen=True):
    """`[webapp]`: `catalogue` is the URL that connectors come from, "" = none; it is looked at every `refresh` seconds.

    A URL on one of `unwrap_hosts` (`*.example.com` = any below it) stands for the one in its query's
    `unwrap_parameter`.
    """

    catalogue: str = ""
    unwrap_hosts: tuple[str, ...] = ()
    unwrap_parameter: str = "mcp_url"
    refresh: Annotated[float, Meta(ge=60, le=604800)] = 3600.0


class VaultSettings(msgspec.Struct, frozen=True):
    """`[vault]`: `key` is where the key comes from that tokens and secrets are sealed with: `os` (the system's key
    ring), `credentials` (systemd's LoadCredential), `file:PATH` (absolute, or beginning with `~/`), `passphrase`."""

    key: Annotated[str, Meta(pattern=r"^(os|credentials|passphrase|file:(/|~/).+)$")] = "os"


class OauthSettings(msgspec.Struct, frozen=True):
    """`[oauth]`: `client_metadata_url` is where mcphub's own client metadata document is published, "" = nowhere; an
    entry's own comes first. `notify`: the desktop says when a server begins to need a sign-in."""

    client_metadata_url: Annotated[str, Meta(pattern=r"^$|^https://[^/?#@\s\\]+/[^?#\s\\]+$")] = ""
    notify: bool = True


class XaaIdpSettings(msgspec.Struct, frozen=True):
    """`[xaaIdp]`: the organisation's identity provider, where a person signs in once for all servers whose entry says
    `xaa`; `issuer` "" = none. `callback_port` 0 = any free one. `subject` is what is exchanged there. What
    administrators say in managed settings wins."""

    issuer: str = ""
    client_id: str = ""
    client_secret: str = ""
    callback_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    scopes: str | tuple[str, ...] = ()
    subject: Literal["id_token", "refresh_token"] = "id_token"

    def __repr__(self) -> str:
        return f"XaaIdpSettings({self.issuer!r})"


class HubSettings(msgspec.Struct, frozen=True):
    """Everything of settings.toml. In the file, names are written in camel case (`max_length` is `maxLength`)."""

    names: NamesSettings = msgspec.field(default_factory=NamesSettings)
    lists: ListsSettings = msgspec.field(default_factory=ListsSettings)
    connect: ConnectSettings = msgspec.field(default_factory=ConnectSettings)
    health: HealthSettings = msgspec.field(default_factory=HealthSettings)
    call: CallSettings = msgspec.field(default_factory=CallSettings)
    logs: LogsSettings = msgspec.field(default_factory=LogsSettings)
    trace: TraceSettings = msgspec.field(default_factory=TraceSettings)
    limits: LimitsSettings = msgspec.field(default_factory=LimitsSettings)
    stop: StopSettings = msgspec.field(default_factory=StopSettings)
    pinning: PinningSettings = msgspec.field(default_factory=PinningSettings)
    http: HttpSettings = msgspec.field(default_factory=HttpSettings)
    roots: RootsSettings = msgspec.field(default_factory=RootsSettings)
    plugins: PluginsSettings = msgspec.field(default_factory=PluginsSettings)
    webapp: WebappSettings = msgspec.field(default_factory=WebappSettings)
    vault: VaultSettings = msgspec.field(default_factory=VaultSettings)
    oauth: OauthSettings = msgspec.field(default_factory=OauthSettings)
    xaa_idp: XaaIdpSettings = msgspec.field(default_factory=XaaIdpSettings)
    #: names of variables that `mcphub connect` may hand over from an agent's environment
    client_env: tuple[str, ...] = ()


#: What a change of takes effect at once; the rest is read when the daemon starts.
_LIVE = frozenset(["connect.timeout", "call", "plugins", "webapp", "clientEnv", "oauth", "xaaIdp"])


def awaiting_restart(begun: HubSettings, now: HubSettings) -> tuple[str, ...]:
    """The keys, as settings.toml has them, whose values are other ones now than those that are in use."""
    found = []
    for section in HubSettings.__struct_fields__:
        one, other = getattr(begun, section), getattr(now, section)
        for name in getattr(one, "__struct_fields__", ("",)):
            key = _camel(section) + (f".{_camel(name)}" if name else "")
            same = getattr(one, name) == getattr(other, name) if name else one == other
            if not same and _camel(section) not in _LIVE and key not in _LIVE:
                found.append(key)
    return tuple(found)


_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "[::1]": "::1"}


def listen_address(text: str) -> Listen | None:
    """What `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT` stands for; None for "". Raises ValueError."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError("expected HOST:PORT, such as 127.0.0.1:7712")
    found = _LOOPBACK.get(host.lower())
    if found is None:
        hosts = ", ".join(_LOOPBACK)
        raise ValueError(f"agents are served on the loopback only ({hosts}), not on {host[:80] or 'every address'}")
    return Listen(found, int(port))


def parse_settings(
    data: bytes, path: str, env: Mapping[str, str], last: HubSettings | None = None
) -> tuple[HubSettings, tuple[str, ...]]:
    """The settings of one file (b"" = none), then the overrides of `env`, and one line for each thing that is wrong.

    A file that is no TOML means `last`, or the defaults where nobody knows what it said last; a wrong value means the
    default of that key; an unknown key is named and otherwise ignored. `env` may hold MCP_TIMEOUT (milliseconds, 1000
    and more), MCP_SERVER_CONNECTION_BATCH_SIZE and MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE; they win over the file.
    Never raises.
    """
    problems: list[str] = []
    settings = HubSettings()
    if data:
        kept = "the defaults are in force" if last is None else "the settings stay as they were"
        table = _table(data, path, kept, problems)
        settings = _section(settings, table, path, "", problems) if table is not None else last or settings
    try:
        listen_address(settings.http.listen)
    except ValueError as error:
        problems.append(f"{path}: http.listen: {error}; nothing is served over TCP")
        settings = msgspec.structs.replace(settings, http=HttpSettings())
    return _overridden(settings, env, problems), tuple(problems)


def _table(data: bytes, path: str, kept: str, problems: list[str]) -> dict[str, Any] | None:
    try:
        return parse_toml(data, path)
    except TomlError as error:
        problems.append(f"cannot use {error}; {kept}")
    return None


_Section = typing.TypeVar("_Section")


def _section(default: _Section, table: Mapping[str, Any], path: str, prefix: str, problems: list[str]) -> _Section:
    """`default` with the keys of `table` put in place, each converted by its field's type."""
    if not table:
        return default
    assert isinstance(default, msgspec.Struct)
    types = typing.get_type_hints(type(default), include_extras=True)
    names = {_camel(name): name for name in default.__struct_fields__}
    changes: dict[str, Any] = {}
    for key, value in table.items():
        shown = prefix + key
        name = names.get(key)
        if name is None and belongs_to_policy(key):
            continue  # own_policy.py says what is wrong with it, if anything
        if name is None:
            known = ", ".join(sorted([*names, *([] if prefix else [TABLE])]))
            problems.append(f"{path}: {shown}: unknown key; known here: {known}")
            continue
        present = getattr(default, name)
        if isinstance(present, msgspec.Struct):
            if isinstance(value, dict):
                changes[name] = _section(present, value, path, f"{shown}.", problems)
            else:
                problems.append(f"{path}: {shown}: expected a table, written [{shown}]; the defaults are in force")
            continue
        try:
            changes[name] = msgspec.convert(value, types[name])
        except msgspec.ValidationError as error:
            problems.append(f"{path}: {shown}: {_sentence(error)}; the default {_toml(present)} is in force")
    return cast(_Section, msgspec.structs.replace(cast(Any, default), **changes))


def _overridden(settings: HubSettings, env: Mapping[str, str], problems: list[str]) -> HubSettings:
    connect = settings.connect
    if (timeout := _number(env, "MCP_TIMEOUT", 1000, 3_600_000, " milliseconds", problems)) is not None:
        connect = msgspec.structs.replace(connect, timeout=timeout / 1000)
    if (local := _number(env, "MCP_SERVER_CONNECTION_BATCH_SIZE", 1, 100, "", problems)) is not None:
        connect = msgspec.structs.replace(connect, local=local)
    if (remote := _number(env, "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE", 1, 200, "", problems)) is not None:
        connect = msgspec.structs.replace(connect, remote=remote)
    return msgspec.structs.replace(settings, connect=connect)


def _number(env: Mapping[str, str], name: str, low: int, high: int, unit: str, problems: list[str]) -> int | None:
    text = env.get(name, "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 12 and low <= int(text) <= high:
        return int(text)
    problems.append(f"environment variable {name}: expected a whole number from {low} to {high}{unit}; it is ignored")
    return None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _sentence(error: msgspec.ValidationError) -> str:
    text = str(error).replace("`", "")
    return text[:1].lower() + text[1:]


def _toml(value: Any) -> str:
    return "[]" if value == () else f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)
