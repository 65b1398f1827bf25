"""Owns the Protocol that says what the control handlers need from the daemon.

It must not know how the daemon does it, nor that the question came over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from mcphub.questions.calls import CallsAsked
from mcphub.status import (
    AddedReport,
    ApprovalsReport,
    CallReport,
    CallsReport,
    InventoryReport,
    LoginReport,
    LogoutReport,
    LogsReport,
    PasteReport,
    PolicyReport,
    PolicyVerdict,
    ReconnectReport,
    SecretReport,
    SecretsReport,
    StatusReport,
    ToolChangesReport,
    ToolsReport,
    UrlReport,
    VaultReport,
    WhyReport,
)


class Hub(Protocol):
    """The daemon as its people see it. All methods are called on the event loop's thread.

    `workspace` is the absolute project directory that the question is asked from, "" = none (user scope only).
    A method refuses by raising `ControlError` with an HTTP status: 404 for an unknown name, 409 where the thing
    changed since it was shown. Any other exception is a bug: it is logged and answered as status 500.
    """

    def status(self, workspace: str, name: str | None) -> StatusReport:
        """The rows that the workspace sees; with a name only that server's. Raises ControlError 404."""

    async def wait_newer(self, revision: int) -> int:
        """Return the current revision of the status as soon as it differs from `revision`; may be cancelled."""

    def tools(self, workspace: str, query: str, schemas: bool) -> ToolsReport:
        """The merged tools of the workspace that match `query` ("" = all), with `input_schema` where asked."""

    async def call(self, workspace: str, tool: str, arguments: bytes) -> CallReport:
        """Call one exposed tool; `arguments` is one line of JSON text, an object, checked to be UTF-8.

        Raises ControlError 404 for an unknown tool. Cancelled when the person who asked is gone."""

    async def reconnect(self, workspace: str, name: str | None) -> ReconnectReport:
        """Close and open again one server, or with None all of the workspace. Raises ControlError 404."""

    async def url(self, workspace: str, server: str) -> UrlReport:
        """Where agents of this workspace, or of one server in it, come over HTTP. Raises ControlError 404."""

    def logs(self, workspace: str, name: str, lines: int) -> LogsReport:
        """The last `lines` lines of the server's stderr. Raises ControlError 404."""

    def follow_logs(
        self, workspace: str, name: str, lines: int, heartbeat: float
    ) -> AsyncGenerator[LogsReport | None, None]:
        """The same, and then every line that comes, for ever; also over restarts of the server, and while there is
        none of that name. None after every `heartbeat` seconds without a line. Raises ControlError 404 at the first."""

    async def add_server(self, workspace: str, name: str, entry: dict[str, Any], keep: bool) -> AddedReport:
        """Add a server for agents of the workspace, "" = for all. Raises ControlError 400, 403, 409."""

    async def remove_server(self, workspace: str, name: str) -> str:
        """Take away the added server that agents of the workspace see, and return whose it was. Raises ControlError
        404."""

    def login(self, workspace: str, name: str, heartbeat: float) -> AsyncGenerator[LoginReport | None, None]:
        """Sign a person in: where the browser must go, and how it ended. None after every `heartbeat` seconds without
        news. Ends when it is closed. Raises ControlError 404, 409 at the first."""

    def paste(self, workspace: str, name: str, url: str) -> PasteReport:
        """Hand over where the browser was sent to. Raises ControlError 404, 409."""

    async def logout(self, workspace: str, name: str | None) -> LogoutReport:
        """Give up the tokens of one server, or with None of all, and the organisation's login. Raises ControlError 404,
        409."""

    def why(self, workspace: str, name: str) -> WhyReport:
        """Where a name stands and why, also one that nobody has."""

    def policy(self, workspace: str) -> PolicyReport:
        """Every rule that agents of the workspace are under."""

    def policy_verdict(self, workspace: str, name: str, url: str, command: tuple[str, ...]) -> PolicyVerdict:
        """What policy says of a server of that command, or that URL, or else of that name."""

    def inventory(self, workspace: str) -> InventoryReport:
        """Every layer and every entry that agents of the workspace have or might have had."""

    async def calls(self, asked: CallsAsked) -> CallsReport:
        """What became of calls that may have changed something. Raises ControlError 404 for an id that is not kept."""

    def approvals(self, workspace: str) -> ApprovalsReport:
        """The project servers of the workspace with what approving each would run."""

    def approve(self, workspace: str, name: str, digest: str) -> None:
        """Let the entry run that was shown under `digest`. Raises ControlError 404, or 409 if it is another by now."""

    def reject(self, workspace: str, name: str) -> None:
        """Never run this entry of the workspace until it is approved. Raises ControlError 404."""

    def tool_changes(self, workspace: str, name: str) -> ToolChangesReport:
        """What has become of the tools of a server since they were first used. Raises ControlError 404, or 409 while
        its tools are not known."""

    def approve_tools(self, workspace: str, name: str, digest: str) -> None:
        """Take the tools of a server as they were shown under `digest`. Raises ControlError as `tool_changes`, and 409
        if they are others by now."""

    async def vault(self) -> VaultReport:
        """How the vault stands."""

    async def unlock_vault(self, passphrase: str | None, start_over: bool) -> VaultReport:
        """Ask the source of its key again, and try what waited for it. Raises ControlError 409."""

    async def rotate_vault(self, passphrase: str | None) -> VaultReport:
        """Seal everything with a new key. Raises ControlError 409."""

    async def secrets(self, workspace: str) -> SecretsReport:
        """Names, never values. Raises ControlError 409."""

    async def set_secret(self, workspace: str, name: str, value: str) -> SecretReport:
        """Keep a secret; whatever refers to it has it when this returns. Raises ControlError 400, 409."""

    async def remove_secret(self, workspace: str, name: str) -> SecretReport:
        """Take a secret away. Raises ControlError 404, 409."""

    async def reload(self) -> int:
        """Read the files that changed; returns the status's revision."""

    def stop(self) -> None:
        """Begin the orderly shutdown of the daemon and return at once."""

    def restart(self) -> None:
        """The same, where another daemon comes next: agents that can go on in it are told so."""
