"""Owns CannedHub: the control handlers' Hub over canned data, that remembers what it was asked to do.

It must not know HTTP or the command line. Run as a module it serves itself at a path, as a daemon would, until stopped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from mcphub.control.hub import Hub
from mcphub.control.server import control_server
from mcphub.errors import ControlError
from mcphub.questions.calls import CallsAsked, calls_report, no_such_call
from mcphub.status import (
    AddedReport,
    ApprovalItem,
    ApprovalsReport,
    CallReport,
    CallsReport,
    DaemonStatus,
    InventoryReport,
    LastError,
    LoginReport,
    LogoutReport,
    LogsReport,
    NetworkStatus,
    OriginStatus,
    PasteReport,
    PolicyReport,
    PolicyRule,
    PolicyVerdict,
    ReconnectReport,
    SecretReport,
    SecretsReport,
    SecretStatus,
    ServerStatus,
    SessionStatus,
    SignedOutStatus,
    StatusReport,
    ToolChange,
    ToolChangesReport,
    ToolsReport,
    ToolStatus,
    UrlReport,
    VaultReport,
    WhyReport,
    WhyStep,
)
from mcphub.store.call_record import CallRecord
from mcphub.transport.unix_socket import listening

EVIL = "a\x1b]0;owned\x07\u202eb\U000e0041\x9b31m"


def origin(key: str, line: int, scope: str = "user", path: str = "/home/u/.config/mcphub/mcp.json") -> OriginStatus:
    return OriginStatus(scope=scope, path=path, key=f"mcpServers.{key}", line=line)


def server(name: str, **changes: Any) -> ServerStatus:
    """A connected row, with changes."""
    row = ServerStatus(
        name=name,
        scope="user",
        workspace="",
        state="connected",
        state_text="connected",
        reason="",
        attempt=None,
        attempts=5,
        retry_in=None,
        origin=origin(name, 3),
        shadows=[],
        transport="stdio",
        command=["npx", "-y", name],
        era="legacy",
        version="2025-11-25",
        server_info={"name": name, "version": "1.0"},
        capabilities={"tools": {}},
        tools=2,
        warnings=[],
        pid=4712,
        rss=25 * 1024 * 1024,
        uptime=7325.0,
        calls_in_flight=0,
        further_sessions=0,
        counters={"calls": 12},
        last_error=None,
    )
    row.update(changes)  # type: ignore[typeddict-item]
    return row


def failed(name: str, message: str = "spawn npx ENOENT", **changes: Any) -> ServerStatus:
    error = LastError(
        phase="spawn",
        kind="exited",
        message=message,
        remedy="install Node.js",
        exit_code=127,
        stderr_tail=["first line", message],
        at="2026-08-01T12:00:00Z",
        layer="process",
    )
    fields: dict[str, Any] = {
        "state": "failed",
        "state_text": "failed",
        "reason": "5 attempts failed",
        "layer": "process",
        "tools": None,
        "era": None,
        "version": None,
        "server_info": None,
        "capabilities": None,
        "pid": None,
        "rss": None,
        "uptime": None,
        "counters": {},
        "last_error": error,
    }
    return server(name, **{**fields, **changes})


def tool(name: str, description: str = "Does a thing.", title: str = "") -> ToolStatus:
    return ToolStatus(
        name=f"mcp__time__{name}",
        original_name=name,
        server="time",
        scope="user",
        origin=origin("time", 3),
        title=title,
        description=description,
    )


def waiting(name: str, state: str = "waiting", **changes: Any) -> ApprovalItem:
    item = ApprovalItem(
        name=name,
        workspace="/w",
        origin=origin(name, 2, "project", "/w/.mcp.json"),
        state=state,
        command=["sh", "-c", "curl x | sh"],
        cwd="/w",
        env_names=["TOKEN", "HOME"],
        digest=f"digest-of-{name}",
        reads=[],
        inherits=[],
        env_file="",
        helper="",
        unpinned=[],
        diff=[],
        warnings=[],
    )
    item.update(changes)  # type: ignore[typeddict-item]
    return item


class CannedHub:
    """Set the attributes to what the hub shall answer; `asked` is what it was asked to change, in order."""

    def __init__(self, servers: list[ServerStatus] | None = None) -> None:
        self.revision = 1
        self.servers = [server("time")] if servers is None else servers
        self.problems: list[str] = []
        self.attached: list[SessionStatus] = []
        self.saved = 0
        self.network = NetworkStatus(standing="online", since="2026-01-02T03:04:05+00:00", waiting=0)
        self.locked = False
        #: How the sign-in to each server ends, None = never.
        self.logins: dict[str, LoginReport | None] = {}
        self.rules: list[PolicyRule] = []
        self.tool_list = [tool("now"), tool("convert", "Converts.\nAt length.")]
        self.items: list[ApprovalItem] = []
        self.tool_changed: list[ToolChange] = []
        self.gone: list[str] = []
        self.pin_problem = ""
        self.unwritable = ""
        self.lines = ["one", "two"]
        self.dropped = 0
        self.results: dict[str, CallReport] = {}
        #: The outcome journal, newest first.
        self.records: list[CallRecord] = []
        self.raises: Exception | None = None
        self.asked: list[tuple[str, ...]] = []
        self.pid = os.getpid()
        #: A call to `hang` waits; these say that it began and that it was cancelled.
        self.hanging = anyio.Event()
        self.cancelled = anyio.Event()
        self.stopped = anyio.Event()
        self._news = anyio.Event()

    def changed(self) -> None:
        """A new revision; call it on the loop's thread."""
        self.revision += 1
        self._news.set()
        self._news = anyio.Event()

    def status(self, workspace: str, name: str | None) -> StatusReport:
        self._maybe_raise()
        rows = [row for row in self.servers if name in (None, row["name"])]
        if name is not None and not rows:
            raise ControlError(f"there is no server {name}", status=404)
        daemon = DaemonStatus(
            version="0.1.0",
            pid=self.pid,
            uptime=65.0,
            rss=30 * 1024 * 1024,
            launcher_pid=None,
            launcher_rss=None,
            descriptors=12,
            agent_socket="/run/a",
            http_url=None,
            http_socket="/run/h",
            control_socket="/run/c",
            network=self.network,
        )
        return StatusReport(
            revision=self.revision,
            daemon=daemon,
            servers=rows,
            sessions=list(self.attached),
            problems=list(self.problems),
            warnings=[],
            saved=self.saved,
        )

    async def wait_newer(self, revision: int) -> int:
        while self.revision == revision:
            await self._news.wait()
        return self.revision

    def tools(self, workspace: str, query: str, schemas: bool) -> ToolsReport:
        self._maybe_raise()
        found = [tool.copy() for tool in self.tool_list if query in tool["name"]]
        for item in found if schemas else []:
            item["input_schema"] = {"type": "object"}
        return ToolsReport(revision=self.revision, tools=found)

    async def call(self, workspace: str, tool: str, arguments: bytes) -> CallReport:
        self._maybe_raise()
        self.asked.append(("call", workspace, tool, arguments.decode()))
        if tool == "hang":
            self.hanging.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        if tool in self.results:
            return self.results[tool]
        if tool == "echo":
            content = [{"type": "text", "text": json.loads(arguments).get("text", "")}]
            return CallReport(tool=tool, server="time", result={"content": content})
        raise ControlError(f"there is no tool {tool}", status=404)

    async def reconnect(self, workspace: str, name: str | None) -> ReconnectReport:
        names = [row["name"] for row in self.status(workspace, name)["servers"]]
        self.asked.append(("reconnect", workspace, *names))
        report = ReconnectReport(reconnected=names)
        if name is None and self.problems:
            report["problems"] = list(self.problems)
        return report

    async def url(self, workspace: str, server: str) -> UrlReport:
        if server:
            self.status(workspace, server)
        self.asked.append(("url", workspace, server))
        path = "/mcp" + (f"/s/{server}" if server else "")
        return UrlReport(url=f"http://127.0.0.1:1/t/x{path}", socket="/run/h", path=path)

    def logs(self, workspace: str, name: str, lines: int) -> LogsReport:
        self.status(workspace, name)
        return LogsReport(name=name, dropped=self.dropped, lines=self.lines[-lines:] if lines else [])

    async def follow_logs(
        self, workspace: str, name: str, lines: int, heartbeat: float
    ) -> AsyncGenerator[LogsReport | None, None]:
        """The tail, a heartbeat, and then one line more; no further word until it is closed."""
        yield self.logs(workspace, name, lines)
        yield None
        yield LogsReport(name=name, dropped=self.dropped, lines=["one more"])
        await anyio.sleep_forever()

    async def add_server(self, workspace: str, name: str, entry: dict[str, Any], keep: bool) -> AddedReport:
        self._maybe_raise()
        self.asked.append(("add", workspace, name, json.dumps(entry), str(keep)))
        return AddedReport(name=name, workspace=workspace, kept=keep, state_text="pending", reason="", shadows=[])

    async def remove_server(self, workspace: str, name: str) -> str:
        self._maybe_raise()
        self.asked.append(("remove", workspace, name))
        return workspace

    def why(self, workspace: str, name: str) -> WhyReport:
        self._maybe_raise()
        found = [row for row in self.servers if row["name"] == name]
        steps = [WhyStep(step="configured", verdict="yes", origin=row["origin"], text=row["reason"]) for row in found]
        return WhyReport(
            name=name,
            workspace=workspace,
            configured=bool(found),
            wanted=bool(found),
            state=found[0]["state_text"] if found else "unknown",
            answer=f"{name} runs" if found else f"no server is named {name} here",
            steps=steps or [WhyStep(step="configured", verdict="no", origin=None, text="looked in /f")],
            claims=[],
            suppresses=[],
            next=[],
            near=[],
            elsewhere=[],
            live=True,
        )

    def policy(self, workspace: str) -> PolicyReport:
        self._maybe_raise()
        return PolicyReport(documents=[], rules=list(self.rules), closed=[], warnings=[], live=True)

    def policy_verdict(self, workspace: str, name: str, url: str, command: tuple[str, ...]) -> PolicyVerdict:
        self._maybe_raise()
        about = " ".join(command) or url or name
        return PolicyVerdict(about=about, allowed=True, rule="", origin=None, sentence="allowed", live=True)

    def inventory(self, workspace: str) -> InventoryReport:
        self._maybe_raise()
        return InventoryReport(
            format="mcphub-inventory",
            version=1,
            workspace=workspace,
            layers=[],
            problems=list(self.problems),
            warnings=[],
            live=True,
        )

    async def calls(self, asked: CallsAsked) -> CallsReport:
        self._maybe_raise()
        report = calls_report(self.records, asked, self.problems, live=True)
        if asked.id and not report["calls"]:
            raise ControlError(no_such_call(asked.id), status=404)
        return report

    def approvals(self, workspace: str) -> ApprovalsReport:
        self._maybe_raise()
        report = ApprovalsReport(items=list(self.items))
        if self.unwritable:
            report["unwritable"] = self.unwritable
        return report

    def approve(self, workspace: str, name: str, digest: str) -> None:
        item = self._item(name)
        if item["digest"] != digest:
            raise ControlError(f"{name} changed since it was shown", status=409)
        self.asked.append(("approve", workspace, name, digest))

    def reject(self, workspace: str, name: str) -> None:
        self._item(name)
        self.asked.append(("reject", workspace, name))

    def tool_changes(self, workspace: str, name: str) -> ToolChangesReport:
        self.status(workspace, name)
        report = ToolChangesReport(
            name=name,
            workspace=workspace,
            digest="digest-of-tools",
            tools=2,
            changes=list(self.tool_changed),
            gone=list(self.gone),
            problem=self.pin_problem,
        )
        if self.unwritable:
            report["unwritable"] = self.unwritable
        return report

    def approve_tools(self, workspace: str, name: str, digest: str) -> None:
        if digest != self.tool_changes(workspace, name)["digest"]:
            raise ControlError(f"the tools of {name} changed since they were shown", status=409)
        self.asked.append(("approve-tools", workspace, name, digest))

    async def login(
        self, workspace: str, name: str, heartbeat: float
    ) -> AsyncGenerator[LoginReport | None, None]:
        """One that waits, a heartbeat, and then how `logins` says that it ended; for ever where it says nothing."""
        self._maybe_raise()
        self.asked.append(("login", workspace, name))
        if name not in self.logins:
            raise ControlError(f"there is no server {name}", status=404)
        yield LoginReport(name=name, state="starting", how="browser")
        yield None
        url = f"https://as.example/authorize?server={name}"
        try:
            yield LoginReport(name=name, state="waiting", how="browser", url=url, host="as.example", client="dcr")
            if (end := self.logins[name]) is None:
                await anyio.sleep_forever()
            else:
                yield end
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.cancelled.set()
            raise

    def paste(self, workspace: str, name: str, url: str) -> PasteReport:
        self.asked.append(("paste", workspace, name, url))
        return PasteReport(name=name)

    async def logout(self, workspace: str, name: str | None) -> LogoutReport:
        self._maybe_raise()
        self.asked.append(("logout", workspace, str(name)))
        if name is not None:
            one = SignedOutStatus(name=name, revoked=True)
            if name.startswith("itself"):
                one["again"] = name == "itself"
            return LogoutReport(signed_out=[one])
        idp = SignedOutStatus(name="https://login.example", revoked=None)
        return LogoutReport(signed_out=[SignedOutStatus(name="a", revoked=False)], idp=idp, others=2)

    async def vault(self) -> VaultReport:
        self._maybe_raise()
        locked = "the key ring is locked" if self.locked else ""
        return VaultReport(
            path="/state/vault",
            exists=True,
            source="the key ring",
            state="locked" if locked else "open",
            reason="locked" if locked else "",
            detail=locked,
            warning="",
            live=True,
        )

    async def unlock_vault(self, passphrase: str | None, start_over: bool) -> VaultReport:
        self.asked.append(("unlock", str(passphrase), str(start_over)))
        self.locked = False
        return await self.vault()

    async def rotate_vault(self, passphrase: str | None) -> VaultReport:
        self.asked.append(("rotate", str(passphrase)))
        return await self.vault()

    async def secrets(self, workspace: str) -> SecretsReport:
        self._maybe_raise()
        return SecretsReport(secrets=[SecretStatus(name="gh", servers=["time"])], live=True)

    async def set_secret(self, workspace: str, name: str, value: str) -> SecretReport:
        self._maybe_raise()
        self.asked.append(("set", workspace, name, value))
        return SecretReport(name=name, action="set", servers=["time"], live=True)

    async def remove_secret(self, workspace: str, name: str) -> SecretReport:
        self._maybe_raise()
        self.asked.append(("unset", workspace, name))
        return SecretReport(name=name, action="removed", servers=[], live=True)

    async def reload(self) -> int:
        self.asked.append(("reload",))
        return self.revision

    def stop(self) -> None:
        self.asked.append(("stop",))
        self.stopped.set()

    def restart(self) -> None:
        self.asked.append(("restart",))
        self.stopped.set()

    def _item(self, name: str) -> ApprovalItem:
        for item in self.items:
            if item["name"] == name:
                return item
        raise ControlError(f"nothing asks for a server {name}", status=404)

    def _maybe_raise(self) -> None:
        if self.raises is not None:
            raise self.raises


@asynccontextmanager
async def answering(hub: Hub, path: str) -> AsyncIterator[None]:
    """The real control server for this hub at `path`."""
    with listening(path) as sock:
        async with control_server(hub, sock):
            yield


@contextmanager
def served(hub: CannedHub, path: str) -> Iterator[BlockingPortal]:
    """The hub behind the real control server at `path`, on a loop in a thread of its own."""
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(answering(hub, path)):
        yield portal


async def _main(path: str) -> None:
    hub = CannedHub()
    async with answering(hub, path):
        print("ready", flush=True)
        await hub.stopped.wait()


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1])
