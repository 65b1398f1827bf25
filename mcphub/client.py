"""Owns ControlClient: the control API as a typed, synchronous Python object, for the command line and other programs.

It must not import anything heavy: HTTP/1.0 is written by hand here, because `mcphub status` is mostly start-up time.
"""

from __future__ import annotations

import json
import os
import time
from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` around it costs 3 ms, for enums and helpers not used here

from mcphub.errors import ConfigError, ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from mcphub.status import (
        AddedReport,
        ApprovalsReport,
        CallReport,
        CallsReport,
        DecisionReport,
        InventoryReport,
        LoginReport,
        LogoutReport,
        LogsReport,
        PasteReport,
        PolicyReport,
        PolicyVerdict,
        ReconnectReport,
        ReloadReport,
        RemovedReport,
        SecretReport,
        SecretsReport,
        StatusReport,
        StopReport,
        ToolChangesReport,
        ToolsReport,
        UrlReport,
        VaultReport,
        WhyReport,
    )

#: Seconds for an answer that the daemon has at hand. A call has no limit here: the hub's own limits end it.
TIMEOUT = 15.0
#: Seconds without a line (the daemon sends an empty one every 15) after which a stream counts as dead.
SILENCE = 60.0
#: Seconds for giving up tokens: authorization servers are told of each.
REVOCATION = 120.0
#: Bytes of one line of an answer's head, and lines of it.
_MAX_LINE = 65536
_MAX_HEADERS = 100
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class ControlClient:
    """One user's daemon, asked from one workspace; every method opens and closes its own connection.

    `path` is the control socket, by default the one of this user. `workspace` is the directory that is asked about,
    "" = none. Every method raises ControlError: `status` 0 where no daemon answered, else the HTTP status.
    """

    def __init__(self, path: str | None = None, workspace: str = "", timeout: float = TIMEOUT) -> None:
        if path is None:
            from mcphub.config.runtime_dir import control_socket

            path = control_socket()
        self.path = path
        self.workspace = workspace
        self.timeout = timeout

    def status(self, name: str | None = None) -> StatusReport:
        """What runs and why not; with a name only that server (404 where there is none)."""
        report: StatusReport = self._get("/v1/status" + self._query(name=name))
        return report

    def watch(self, name: str | None = None) -> Generator[StatusReport, None, None]:
        """The status now and after every change, until the daemon ends. Closing the iterator closes the connection."""
        yield from self._stream("/v1/status/watch" + self._query(name=name))

    def _stream(self, target: str, method: str = "GET") -> Generator[Any, None, None]:
        sock = self._connect()
        try:
            answer = self._ask(sock, method, target, b"", SILENCE)
            for line in _lines(answer.parts()):
                if line.strip():
                    report = _parse(line, self.path)
                    _raise_error(report, 500)
                    yield report
        finally:
            sock.close()

    def tools(self, query: str = "", schemas: bool = False) -> ToolsReport:
        """The merged tools that match the words of `query`, with their input schemas where asked."""
        fields = self._query(query=query or None, schemas="1" if schemas else None)
        report: ToolsReport = self._get("/v1/tools" + fields)
        return report

    def call(self, tool: str, arguments: str = "{}") -> CallReport:
        """Call a tool by its exposed name; `arguments` is the JSON text of an object. Waits as long as the hub does.

        A tool that fails is a report like any other. Leaving early (an exception, Ctrl-C) cancels the call."""
        body = f'{{"tool": {json.dumps(tool)}, "arguments": {arguments}}}'
        report: CallReport = self._post("/v1/call", body, None)
        return report

    def calls(
        self, id: str = "", unknown: bool = False, server: str = "", agent: str = "", limit: int = 50
    ) -> CallsReport:
        """What became of calls that may have changed something, newest first; with an id of that one (404 where it is
        not kept)."""
        fields = self._query(
            id=id or None,
            unknown="1" if unknown else None,
            server=server or None,
            agent=agent or None,
            limit=str(limit),
        )
        report: CallsReport = self._get("/v1/calls" + fields)
        return report

    def reconnect(self, name: str | None = None) -> ReconnectReport:
        """Close and open again one server, or with None all."""
        report: ReconnectReport = self._tell("/v1/reconnect", {"name": name})
        return report

    def url(self, server: str = "") -> UrlReport:
        """Where agents come over HTTP; with a server only to that one, under its own names."""
        report: UrlReport = self._get("/v1/url" + self._query(server=server or None))
        return report

    def logs(self, name: str, lines: int = 100) -> LogsReport:
        """The last lines of a server's stderr, not escaped."""
        report: LogsReport = self._get(f"/v1/logs/{_quote(name)}" + self._query(lines=str(lines)))
        return report

    def follow_logs(self, name: str, lines: int = 100) -> Generator[LogsReport, None, None]:
        """The same, and then each line that comes, until the daemon ends. Closing the iterator closes the
        connection."""
        yield from self._stream(f"/v1/logs-follow/{_quote(name)}" + self._query(lines=str(lines)))

    def why(self, name: str) -> WhyReport:
        """Where a server stands and why, and what would change it; also a name that nobody has."""
        report: WhyReport = self._get(f"/v1/why/{_quote(name)}" + self._query())
        return report

    def policy(self) -> PolicyReport:
        """Every rule that is known, and whether it counts."""
        report: PolicyReport = self._get("/v1/policy" + self._query())
        return report

    def policy_verdict(self, name: str = "", url: str = "", command: tuple[str, ...] = ()) -> PolicyVerdict:
        """What policy says of a server of that command, or that URL, or else of that name; it need not be there."""
        text = json.dumps(command) if command else None
        fields = self._query(name=name or None, url=url or None, command=text)
        report: PolicyVerdict = self._get("/v1/policy/explain" + fields)
        return report

    def inventory(self) -> InventoryReport:
        """Every layer and every entry, secrets masked."""
        report: InventoryReport = self._get("/v1/config" + self._query())
        return report

    def approvals(self) -> ApprovalsReport:
        """The servers that the workspace asks for, and what approving each would run."""
        report: ApprovalsReport = self._get("/v1/approvals" + self._query())
        return report

    def approve(self, name: str, digest: str) -> DecisionReport:
        """Let the entry run that was shown under `digest`; 409 where it is another by now. Ask the person first."""
        report: DecisionReport = self._tell("/v1/approve", {"name": name, "digest": digest})
        return report

    def reject(self, name: str) -> DecisionReport:
        """Never run this entry of the workspace."""
        report: DecisionReport = self._tell("/v1/reject", {"name": name})
        return report

    def tool_changes(self, name: str) -> ToolChangesReport:
        """What has become of the tools of a server since they were first used; 409 while they are not known."""
        report: ToolChangesReport = self._get(f"/v1/tool-changes/{_quote(name)}" + self._query())
        return report

    def approve_tools(self, name: str, digest: str) -> DecisionReport:
        """Take the tools of a server as they were shown under `digest`; 409 where they are others by now. Ask first."""
        report: DecisionReport = self._tell("/v1/approve-tools", {"name": name, "digest": digest})
        return report

    def add_server(self, name: str, entry: dict[str, Any], *, keep: bool = False, workspace: str = "") -> AddedReport:
        """Add a server until the daemon ends, or for good; for agents of `workspace`, "" = for all. `entry` is one of
        `mcpServers`."""
        fields = {"name": name, "entry": entry, "keep": keep, "workspace": workspace}
        report: AddedReport = self._post("/v1/servers", json.dumps(fields), self.timeout)
        return report

    def remove_server(self, name: str) -> RemovedReport:
        """Take away a server that was added over the control API: the one of the workspace, or else the one for all."""
        report: RemovedReport = self._document(
            "DELETE", f"/v1/servers/{_quote(name)}" + self._query(), b"", self.timeout
        )
        return report

    def login(self, name: str) -> Generator[LoginReport, None, None]:
        """Sign in to a server: where the browser must go, and then how it ended. Closing the iterator cancels it."""
        yield from self._stream(f"/v1/servers/{_quote(name)}/login" + self._query(), "POST")

    def paste(self, name: str, url: str) -> PasteReport:
        """Hand over the address that the browser was sent to."""
        report: PasteReport = self._tell(f"/v1/servers/{_quote(name)}/paste", {"url": url})
        return report

    def logout(self, name: str | None = None) -> LogoutReport:
        """Give up the tokens of one server, or with None of all and the organisation's login."""
        target = f"/v1/servers/{_quote(name)}/logout" if name is not None else "/v1/logout"
        report: LogoutReport = self._post(target, "{}", REVOCATION)
        return report

    def vault(self) -> VaultReport:
        """Whether tokens and secrets can be had, and if not, why."""
        report: VaultReport = self._get("/v1/vault")
        return report

    def unlock_vault(self, passphrase: str | None = None, *, start_over: bool = False) -> VaultReport:
        """Ask the source of the vault's key again; 409 where the passphrase is wrong. `start_over` sets a vault aside
        that cannot be opened."""
        fields = {"passphrase": passphrase, "start_over": start_over}
        report: VaultReport = self._post("/v1/vault/unlock", json.dumps(fields), self.timeout)
        return report

    def rotate_vault(self, passphrase: str | None = None) -> VaultReport:
        """Seal everything with a new key; `passphrase` is the new one, where the key is made from one."""
        report: VaultReport = self._tell("/v1/vault/rotate", {"passphrase": passphrase})
        return report

    def secrets(self) -> SecretsReport:
        """The names of all secrets, and which servers refer to each; 409 while the vault is locked."""
        report: SecretsReport = self._get("/v1/secrets" + self._query())
        return report

    def set_secret(self, name: str, value: str) -> SecretReport:
        """Keep a secret; servers that refer to it are started again when this returns."""
        report: SecretReport = self._tell("/v1/secret", {"name": name, "value": value})
        return report

    def remove_secret(self, name: str) -> SecretReport:
        """Take a secret away; 404 where there is none of this name."""
        report: SecretReport = self._document(
            "DELETE", f"/v1/secrets/{_quote(name)}" + self._query(), b"", self.timeout
        )
        return report

    def reload(self) -> ReloadReport:
        """Let the daemon read the files that changed, and wait until it has."""
        report: ReloadReport = self._post("/v1/reload", "{}", self.timeout)
        return report

    def stop(self, restart: bool = False) -> StopReport:
        """Begin the daemon's shutdown; the report has the pid to wait for. `restart`: agents behind `mcphub connect` go
        on in the next one."""
        report: StopReport = self._post("/v1/stop", '{"restart":true}' if restart else "{}", self.timeout)
        return report

    def _query(self, **fields: str | None) -> str:
        pairs = [("workspace", self.workspace or None), *fields.items()]
        text = "&".join(f"{key}={_quote(value)}" for key, value in pairs if value is not None)
        return f"?{text}" if text else ""

    def _get(self, target: str) -> Any:
        return self._document("GET", target, b"", self.timeout)

    def _tell(self, target: str, fields: dict[str, str | None]) -> Any:
        return self._post(target, json.dumps(fields), self.timeout)

    def _post(self, target: str, body: str, timeout: float | None) -> Any:
        try:
            data = body.encode("utf-8")
        except UnicodeEncodeError:
            raise ControlError("cannot send the arguments: they are not valid Unicode text", status=400) from None
        return self._document("POST", target + self._query(), data, timeout)

    def _document(self, method: str, target: str, body: bytes, timeout: float | None) -> Any:
        sock = self._connect()
        try:
            return self._ask(sock, method, target, body, timeout).document()
        finally:
            sock.close()

    def _connect(self) -> socket:
        sock = socket(AF_UNIX, SOCK_STREAM)
        sock.settimeout(self.timeout)
        deadline = time.monotonic() + self.timeout
        try:
            while True:
                try:
                    sock.connect(self.path)
                    return sock
                except BlockingIOError:  # its queue is full
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
        except OSError as error:
            sock.close()
            raise ControlError(
                f"cannot reach the mcphub daemon at {self.path}: {error.strerror or error}. "
                "Start it with `mcphub serve`"
            ) from None
        except BaseException:
            sock.close()
            raise

    def _ask(self, sock: socket, method: str, target: str, body: bytes, timeout: float | None) -> _Response:
        """Send one request and read the head of the answer. Raises ControlError for every status but 200."""
        head = f"{method} {target} HTTP/1.0\r\nHost: mcphub\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            sock.sendall(head.encode("ascii") + body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before its end; the reason may still be there to read
        except TimeoutError:
            raise ControlError(f"cannot send to the mcphub daemon at {self.path}: it does not read") from None
        sock.settimeout(timeout)
        response = _Response(sock, self.path)
        if response.status != 200:
            _raise_error(response.document(), response.status)
            raise ControlError(
                f"cannot read from the mcphub daemon at {self.path}: its answer has HTTP status {response.status}",
                status=response.status,
            )
        return response


class _Response:
    """One answer: its status at once, its body when asked for, in whichever of HTTP's three framings it comes."""

    def __init__(self, sock: socket, path: str) -> None:
        self._path = path
        self._sock = sock
        self._buffer = b""
        line = self._line()
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise self._strange("its answer is not HTTP" if line else "it closed the connection without an answer")
        self.status = int(words[1])
        self._length: int | None = None
        self._chunked = False
        for _ in range(_MAX_HEADERS):
            line = self._line()
            if line in (b"\r\n", b"\n"):
                return
            name, colon, value = line.partition(b":")
            name = name.strip().lower()
            if not colon:
                break
            if name == b"content-length" and value.strip().isdigit():
                self._length = int(value)
            elif name == b"transfer-encoding" and value.strip().lower() == b"chunked":
                self._chunked = True
        raise self._strange("the head of its answer is broken")

    def document(self) -> Any:
        return _parse(b"".join(self.parts()), self._path)

    def parts(self) -> Iterator[bytes]:
        """The body as it comes."""
        if self._chunked:
            while size := self._chunk_size():
                yield self._exactly(size)
                self._line()
        elif self._length is not None:
            yield self._exactly(self._length)
        else:
            while part := self._some():
                yield part

    def _chunk_size(self) -> int:
        line = self._line()
        try:
            return int(line.split(b";")[0], 16)
        except ValueError:
            raise self._strange("its answer is broken" if line else _CUT) from None

    def _line(self) -> bytes:
        """The next line with its end; what is left where there is no end."""
        line = b""
        while b"\n" not in line and len(line) < _MAX_LINE and (part := self._some()):
            line += part
        end = line.find(b"\n") + 1 or len(line)
        self._buffer = line[end:]
        return line[:end]

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            part = self._some()
            if not part:
                raise self._strange(_CUT)
            self._buffer = part[size:]
            parts.append(part[:size])
            size -= len(parts[-1])
        return b"".join(parts)

    def _some(self) -> bytes:
        """What is buffered, else what comes next; b"" at the end."""
        part, self._buffer = self._buffer, b""
        try:
            return part or self._sock.recv(_MAX_LINE)
        except OSError as error:
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> ControlError:
        return self._strange("it does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error))

    def _strange(self, cause: str) -> ControlError:
        return ControlError(f"cannot read from the mcphub daemon at {self._path}: {cause}")


_CUT = "it closed the connection in the middle of its answer"


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _parse(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ControlError(f"cannot read from the mcphub daemon at {path}: its answer is not JSON") from None


def _raise_error(document: Any, status: int) -> None:
    """Raise what the daemon says in place of a report, if that is what it says."""
    if isinstance(document, dict) and isinstance(document.get("error"), dict) and "kind" in document["error"]:
        raise ControlError(str(document["error"].get("message", "")), status=status)


def _quote(text: str) -> str:
    """Percent-encode for a path segment or a query value (RFC 3986); file names keep their bytes."""
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in os.fsencode(text))


def current_workspace(named: str | None = None) -> str:
    """The workspace to ask about: the directory that is named, made absolute ("" = none), else the working directory;
    "" where that is deleted. Raises ConfigError where what is named is no directory."""
    if named:
        path = os.path.abspath(named)
        if not os.path.isdir(path):
            cause = "it is no directory" if os.path.exists(path) else "there is no such directory"
            raise ConfigError(f"cannot ask about {ascii(path)[1:-1]}: {cause}")
        return path
    if named is not None:
        return ""
    try:
        return os.getcwd()
    except OSError:
        return ""
