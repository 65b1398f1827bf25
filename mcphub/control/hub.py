"""Owns the Protocol that says what the control handlers need from the daemon.

It must not know how the daemon does it, nor that the question came over HTTP.
"""

from __future__ import annotations

from typing import Protocol

from mcphub.status import ApprovalsReport, CallReport, LogsReport, ReconnectReport, StatusReport, ToolsReport, UrlReport


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

    def approvals(self, workspace: str) -> ApprovalsReport:
        """The project servers of the workspace with what approving each would run."""

    def approve(self, workspace: str, name: str, digest: str) -> None:
        """Let the entry run that was shown under `digest`. Raises ControlError 404, or 409 if it is another by now."""

    def reject(self, workspace: str, name: str) -> None:
        """Never run this entry of the workspace until it is approved. Raises ControlError 404."""

    def stop(self) -> None:
        """Begin the orderly shutdown of the daemon and return at once."""
