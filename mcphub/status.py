"""Owns what is seen: the typed JSON that the daemon fills, the control socket carries and the CLI prints.

It must not import anything at run time that costs start-up time: the CLI reads these types for checking only.
Times are seconds, sizes bytes. A field that does not apply is null (or absent where marked), never a placeholder.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

StateName = Literal["connected", "failed", "needs-auth", "pending", "disabled"]


class OriginStatus(TypedDict):
    scope: str
    path: str
    key: str
    line: int


class LastError(TypedDict):
    """What went wrong last. `phase`: config, spawn, probe, handshake, list, serve. `remedy` is what to do next."""

    phase: str
    kind: str
    message: str
    remedy: str
    exit_code: int | None
    stderr_tail: list[str]
    at: str


class ServerStatus(TypedDict):
    """One row. `state_text` is the cell of the table, e.g. `pending 3/5`. `uptime` counts since connected."""

    name: str
    scope: str
    workspace: str
    state: StateName
    state_text: str
    reason: str
    attempt: int | None
    attempts: int
    retry_in: float | None
    origin: OriginStatus
    shadows: list[OriginStatus]
    transport: str
    command: list[str]
    era: str | None
    version: str | None
    server_info: dict[str, Any] | None
    capabilities: dict[str, Any] | None
    tools: int | None
    warnings: list[str]
    pid: int | None
    rss: int | None
    uptime: float | None
    calls_in_flight: int
    #: legacy sessions that are open beside the server's own connection
    further_sessions: int
    counters: dict[str, int]
    last_error: LastError | None


class DaemonStatus(TypedDict):
    version: str
    pid: int
    uptime: float
    rss: int
    launcher_pid: int | None
    launcher_rss: int | None
    descriptors: int
    agent_socket: str
    #: where agents are served over TCP, without the token; None = nowhere
    http_url: str | None
    http_socket: str
    control_socket: str


class SessionStatus(TypedDict):
    id: int
    client: str
    workspace: str
    era: str | None
    pid: int | None
    since: float
    calls_in_flight: int


class StatusReport(TypedDict):
    """`GET /v1/status`. `problems` are files, or parts of them, that cannot be used; `warnings` say what is used but
    probably not as its writer meant it."""

    revision: int
    daemon: DaemonStatus
    servers: list[ServerStatus]
    sessions: list[SessionStatus]
    problems: list[str]
    warnings: list[str]


class ToolStatus(TypedDict):
    """One exposed tool of `GET /v1/tools`."""

    name: str
    original_name: str
    server: str
    scope: str
    origin: OriginStatus
    title: str
    description: str
    input_schema: NotRequired[dict[str, Any]]


class ToolsReport(TypedDict):
    revision: int
    tools: list[ToolStatus]


class CallReport(TypedDict):
    """`POST /v1/call`: the tool's result as the server gave it, or the JSON-RPC error."""

    tool: str
    server: str
    result: NotRequired[dict[str, Any]]
    error: NotRequired[dict[str, Any]]


class ReconnectReport(TypedDict):
    reconnected: list[str]


class LogsReport(TypedDict):
    """`GET /v1/logs/NAME`: the kept tail of the server's stderr, oldest first; `dropped` bytes came before it."""

    name: str
    dropped: int
    lines: list[str]


class ApprovalItem(TypedDict):
    """A project server and what approving it would run; `state`: approved, waiting, changed, rejected."""

    name: str
    workspace: str
    origin: OriginStatus
    state: str
    command: list[str]
    cwd: str
    env_names: list[str]
    digest: str


class ApprovalsReport(TypedDict):
    items: list[ApprovalItem]


class DecisionReport(TypedDict):
    """`POST /v1/approve` and `POST /v1/reject`: what was decided about which entry; `state`: approved, rejected."""

    name: str
    workspace: str
    state: str


class UrlReport(TypedDict):
    """`GET /v1/url`: where an agent comes over HTTP. `url` holds the token, and is None while nothing is served over
    TCP; `socket` and `path` are for those that can speak HTTP over a Unix socket, without a token."""

    url: str | None
    socket: str
    path: str


class StopReport(TypedDict):
    """`POST /v1/stop`: the process that is now shutting down."""

    pid: int
