"""Owns the one table of the control API: method, path, access, handler. docs/control-api.md is generated from it.

It must not know how a request is read or an answer written. A new route is one line here and one handler.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from mcphub.control.access import Access, OpenAccess, OwnerAccess
from mcphub.control.handlers import (
    approvals,
    calls,
    connections,
    daemon,
    logins,
    logs,
    questions,
    servers,
    status,
    tool_changes,
    tools,
    vault,
)
from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request


class Answer(msgspec.Struct, frozen=True):
    """A handler that answers with one report."""

    handler: Callable[[Hub, Request], Awaitable[Reply]]


class Stream(msgspec.Struct, frozen=True):
    """A handler that answers with lines of NDJSON, one report each; None is a heartbeat, an empty line."""

    handler: Callable[[Hub, Request], AsyncGenerator[object, None]]


class Route(msgspec.Struct, frozen=True):
    """One line of the table. `path` is in Starlette's syntax, with `text` for whatever comes; a path has one method."""

    method: str
    path: str
    access: Access
    kind: Answer | Stream


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/status", OpenAccess(), Answer(status.get_status)),
    Route("GET", "/v1/status/watch", OpenAccess(), Stream(status.watch_status)),
    Route("GET", "/v1/tools", OpenAccess(), Answer(tools.get_tools)),
    Route("POST", "/v1/call", OwnerAccess(), Answer(tools.post_call)),
    Route("GET", "/v1/calls", OpenAccess(), Answer(calls.get_calls)),
    Route("POST", "/v1/reconnect", OwnerAccess(), Answer(connections.post_reconnect)),
    Route("GET", "/v1/url", OwnerAccess(), Answer(connections.get_url)),
    Route("GET", "/v1/logs/{name:text}", OpenAccess(), Answer(logs.get_logs)),
    Route("GET", "/v1/logs-follow/{name:text}", OpenAccess(), Stream(logs.follow_logs)),
    Route("POST", "/v1/servers", OwnerAccess(), Answer(servers.post_server)),
    Route("POST", "/v1/servers/{name:text}/login", OwnerAccess(), Stream(logins.post_login)),
    Route("POST", "/v1/servers/{name:text}/paste", OwnerAccess(), Answer(logins.post_paste)),
    Route("POST", "/v1/servers/{name:text}/logout", OwnerAccess(), Answer(logins.post_logout)),
    Route("POST", "/v1/logout", OwnerAccess(), Answer(logins.post_logout_all)),
    Route("DELETE", "/v1/servers/{name:text}", OwnerAccess(), Answer(servers.delete_server)),
    Route("GET", "/v1/why/{name:text}", OpenAccess(), Answer(questions.get_why)),
    Route("GET", "/v1/policy", OpenAccess(), Answer(questions.get_policy)),
    Route("GET", "/v1/policy/explain", OpenAccess(), Answer(questions.get_verdict)),
    Route("GET", "/v1/config", OpenAccess(), Answer(questions.get_config)),
    Route("GET", "/v1/approvals", OpenAccess(), Answer(approvals.get_approvals)),
    Route("POST", "/v1/approve", OwnerAccess(), Answer(approvals.post_approve)),
    Route("POST", "/v1/reject", OwnerAccess(), Answer(approvals.post_reject)),
    Route("GET", "/v1/tool-changes/{name:text}", OpenAccess(), Answer(tool_changes.get_tool_changes)),
    Route("POST", "/v1/approve-tools", OwnerAccess(), Answer(tool_changes.post_approve_tools)),
    Route("GET", "/v1/vault", OpenAccess(), Answer(vault.get_vault)),
    Route("POST", "/v1/vault/unlock", OwnerAccess(), Answer(vault.post_unlock)),
    Route("POST", "/v1/vault/rotate", OwnerAccess(), Answer(vault.post_rotate)),
    Route("GET", "/v1/secrets", OpenAccess(), Answer(vault.get_secrets)),
    Route("POST", "/v1/secret", OwnerAccess(), Answer(vault.post_secret)),
    Route("DELETE", "/v1/secrets/{name:text}", OwnerAccess(), Answer(vault.delete_secret)),
    Route("POST", "/v1/reload", OwnerAccess(), Answer(daemon.post_reload)),
    Route("POST", "/v1/stop", OwnerAccess(), Answer(daemon.post_stop)),
)
