"""Owns the values that say what is wanted: origins, server specs, instance keys.

It must not know how a spec is read, judged or run. All values are frozen; secrets print as ***.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class Scope(enum.StrEnum):
    """Where an entry came from; the order of precedence is the order of `config.sources.SOURCES`."""

    ENTERPRISE = "enterprise"
    MANAGED = "managed"
    DYNAMIC = "dynamic"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"
    PLUGIN = "plugin"
    WEBAPP = "webapp"
    SESSION = "session"
    EMBEDDED = "embedded"


class Origin(msgspec.Struct, frozen=True):
    """The scope, file and key that a value came from; `line` is 1-based, 0 where there is no line."""

    scope: Scope
    path: str
    key: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.key}" if self.line else f"{self.path} {self.key}"


class Secret(str):
    """A string that never shows in a repr: environment values, expanded arguments that held a variable."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


#: Shorter values are too common in ordinary text to be masked wherever they occur.
SHORTEST_SECRET = 6


class Limits(msgspec.Struct, frozen=True):
    """What each process of a server may use, 0 = as much as this one: `memory` bytes of memory of its own that it can
    write to, `cpu_time` seconds of a processor over its life; `nice` is how far it steps back for others, 0 to 19."""

    memory: int = 0
    cpu_time: int = 0
    nice: int = 0


class StdioSpec(msgspec.Struct, frozen=True):
    """A program that speaks MCP on stdin and stdout.

    `args` and `env` are fully expanded. `shown` is `[command, *args]` as the file has it, with `${VAR}` kept: the only
    form that may be printed. `inherit_env` is True, False or the names to take over from the hub's environment.
    `stdio` is `socketpair` (default) or `pipe` for programs that open /dev/stdout. `cwd` is absolute, "" = home;
    `shown_cwd` is what may be printed of it, "" = it.
    """

    command: str
    args: tuple[Secret, ...] = ()
    env: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    shown: tuple[str, ...] = ()
    cwd: str = ""
    inherit_env: bool | tuple[str, ...] = False
    stdio: str = "socketpair"
    limits: Limits = Limits()
    shown_cwd: str = ""

    kind = "stdio"


class HelperSpec(msgspec.Struct, frozen=True):
    """A program that prints the headers of an entry, as a JSON object of strings.

    `words` are program and arguments, fully expanded; `shown` is the text as the file has it. `cwd` is absolute, "" =
    home. `foreign`: a repository or a plugin wrote it, so that it gets no variable that is a credential by its name.
    `env` are a plugin's own variables.
    """

    words: tuple[Secret, ...]
    shown: str = ""
    cwd: str = ""
    foreign: bool = False
    env: Mapping[str, Secret] = msgspec.field(default_factory=dict)


class TlsFiles(msgspec.Struct, frozen=True):
    """Absolute paths of PEM files, "" = none: the certificate that is shown to the server and its key (may be in the
    same file), and the authorities that vouch for the server in place of all others. `shown` is what may be printed of
    one that holds a variable: (`cert`, `key` or `ca`, text)."""

    cert: str = ""
    key: str = ""
    ca: str = ""
    shown: tuple[tuple[str, str], ...] = ()


class Ide(msgspec.Struct, frozen=True):
    """What an editor's extension says of itself beside the address of its server."""

    name: str = ""
    running_in_windows: bool = False


class AssertionSpec(msgspec.Struct, frozen=True):
    """Where a workload's own token comes from: one of `file` (absolute path), `env` (a variable of the hub's) and
    `words` (program and arguments); `shown` is what may be printed of it."""

    file: str = ""
    env: str = ""
    words: tuple[Secret, ...] = ()
    shown: str = ""


class OAuthSpec(msgspec.Struct, frozen=True):
    """How the credentials of a server at a URL are had, as its entry's `oauth` says; `mode` is one of OAUTH_MODES.

    `callback_port` 0 = any free one; `callback_host` is 127.0.0.1 or localhost. `issuer` is the only authorization
    server that is believed, "" = the one the server names. `metadata_url` replaces looking for its document,
    `client_metadata_url` is this client's own document (CIMD). `private_key` is a PEM for `private_key_jwt`. `hosts`
    are other hosts, as `host` or `host:port`, that may take part though private or of another origin.
    """

    mode: str = "oauth"
    client_id: str = ""
    client_secret: Secret = Secret("")
    callback_port: int = 0
    callback_host: str = "127.0.0.1"
    scopes: tuple[str, ...] = ()
    issuer: str = ""
    metadata_url: str = ""
    client_metadata_url: str = ""
    allow_missing_pkce: bool = False
    private_key: Secret = Secret("")
    signing_algorithm: str = ""
    assertion: AssertionSpec | None = None
    dpop: bool = False
    hosts: tuple[str, ...] = ()


class IdpSpec(msgspec.Struct, frozen=True):
    """An organisation's identity provider, where a person signs in once for all servers whose entry says `xaa`.
    `subject` is what is exchanged: id_token or refresh_token. `origin` is the file that names it."""

    issuer: str
    client_id: str
    client_secret: Secret = Secret("")
    callback_port: int = 0
    callback_host: str = "127.0.0.1"
    scopes: tuple[str, ...] = ()
    subject: str = "id_token"
    origin: str = ""


#: `oauth`: a person signs in. `client_credentials`: the client itself. `xaa`: the organisation's login is exchanged.
#: `wif`: a workload's own token is. `none`: nobody does, a refusal is final.
OAUTH_MODES = ("oauth", "client_credentials", "xaa", "wif", "none")


class HttpSpec(msgspec.Struct, frozen=True):
    """A server at a URL, spoken to by Streamable HTTP.

    `url` and the values of `headers` are fully expanded; the names of the headers are as the file has them. `shown` is
    the URL as the file has it, with `${VAR}` kept and user and query masked: the only form that may be printed.
    """

    url: Secret
    headers: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    shown: str = ""
    helper: HelperSpec | None = None
    tls: TlsFiles | None = None
    ide: Ide | None = None
    oauth: OAuthSpec = OAuthSpec()

    kind = "http"


class SseSpec(HttpSpec, frozen=True):
    """A server at a URL that opens an event stream, spoken to by the HTTP+SSE transport of 2024-11-05."""

    kind = "sse"


class WsSpec(HttpSpec, frozen=True):
    """A server at a ws:// or wss:// URL, spoken to over a WebSocket, one message a text frame."""

    kind = "ws"


class InProcessSpec(msgspec.Struct, frozen=True):
    """A server that lives in the daemon, found by `name` among those the daemon was given."""

    name: str

    kind = "in-process"


class Allowance(msgspec.Struct, frozen=True):
    """How much there may be of something: `calls` in flight at once, and `rate` of them a second, `burst` of which may
    come together; 0 = any number."""

    calls: int = 0
    rate: float = 0.0
    burst: int = 1


class Allowances(msgspec.Struct, frozen=True):
    """What an entry allows for its server as a whole, and for single tools, by their names there."""

    server: Allowance = Allowance()
    tools: Mapping[str, Allowance] = msgspec.field(default_factory=dict)


#: Calls in flight at once to a server over Streamable HTTP, where its entry does not say: each has a connection.
HTTP_CALLS = 100

#: Seconds that a person has for an answer, where the entry does not say.
INPUT_TIMEOUT = 900.0

#: Values of `sharing` of which another workspace, or another agent, needs an instance of its own.
DIVIDED = ("workspace", "agent")


class ServerSpec(msgspec.Struct, frozen=True):
    """One configured entry, ready to run. Times are seconds; `call_timeout` is without progress.

    `era` pins `legacy` or `modern`; "" = find out by the probe. `enabled_tools` None = all; `disabled_tools` wins.
    `workspace` is the directory whose agents may use it, "" = every agent of the user.
    """

    name: str
    origin: Origin
    transport: StdioSpec | HttpSpec | InProcessSpec
    startup_timeout: float = 30.0
    call_timeout: float = 600.0
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()
    era: str = ""
    workspace: str = ""
    #: A legacy server is told that agents can be asked to sample.
    sampling: bool = False
    #: Who shares an instance, as the entry has it: auto, shared, workspace, agent. `workspace` and `agent` say what
    #: came of it; `agent` is the one agent that it is for, "" = all.
    sharing: str = "auto"
    agent: str = ""
    #: It is started when it is used; and stopped when it was not for so many seconds, 0 = never.
    lazy: bool = False
    idle_timeout: float = 0.0
    #: It is started though nobody uses it, and kept; says no more than `lazy` and `idle_timeout` but for projects.
    always_on: bool = False
    #: Seconds of silence before its connection is probed, 0 = never, None = as the settings say.
    health_idle: float | None = None
    #: Seconds that a person has for an answer to a question of its; the clock of the call stands still meanwhile.
    input_timeout: float = INPUT_TIMEOUT
    #: What its tools say of themselves is believed, whoever wrote the entry.
    trust_annotations: bool = False
    #: By tool, the argument by which its server knows a call that it was sent before.
    idempotency_arguments: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: How many calls of it there may be, None = the entry says nothing of that.
    allowance: Allowances | None = None

    #: Of a project's entry: its texts with their variables replaced, (key, text), as a person may see them.
    told: tuple[tuple[str, str], ...] = ()

    def key(self) -> InstanceKey:
        """The identity of the instance that this spec needs: everything that would make another process of it."""
        t = self.transport
        parts: list[str] = [t.kind, self.workspace, self.era, str(self.startup_timeout), str(self.call_timeout)]
        parts += [repr(self.enabled_tools), repr(self.disabled_tools), str(self.sampling)]
        if isinstance(t, StdioSpec):
            parts += [t.command, t.cwd, t.stdio, repr(t.inherit_env), str(len(t.args)), *t.args]
            parts += [f"{k}={str(v)}" for k, v in sorted(t.env.items())]
            if t.limits != Limits():
                parts.append(repr(t.limits))
        elif isinstance(t, HttpSpec):
            parts.append(str(t.url))
            parts += [f"{k}={str(v)}" for k, v in sorted(t.headers.items())]
            if t.helper is not None:
                parts += ["helper", t.helper.cwd, str(t.helper.foreign), *map(str, t.helper.words)]
            if t.tls is not None:
                parts += ["tls", t.tls.cert, t.tls.key, t.tls.ca]
            if t.oauth != OAuthSpec():
                parts += ["oauth", *_parts_of(t.oauth)]
        else:
            parts.append(t.name)
        if self.agent or self.lazy or self.idle_timeout:
            parts += [self.agent, str(self.lazy), str(self.idle_timeout)]
        if self.health_idle is not None:
            parts += ["health", str(self.health_idle)]
        if self.input_timeout != INPUT_TIMEOUT:
            parts += ["input", str(self.input_timeout)]
        if self.trust_annotations or self.idempotency_arguments:
            said = sorted(self.idempotency_arguments.items())
            parts += ["again", str(self.trust_annotations), *[text for pair in said for text in pair]]
        if self.allowance is not None:
            parts += ["allowance", repr(self.allowance.server), repr(sorted(self.allowance.tools.items()))]
        # Each part with its length: no text within one can pass for the border to the next.
        whole = "".join([f"{len(part)}:{part}" for part in parts])
        digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
        return InstanceKey(self.name, digest[:16], self.workspace)


def _parts_of(oauth: OAuthSpec) -> list[str]:
    found = [f"{field}={getattr(oauth, field)!s}" for field in oauth.__struct_fields__ if field != "assertion"]
    if (source := oauth.assertion) is not None:
        found += [source.file, source.env, *map(str, source.words)]
    return found


class InstanceKey(NamedTuple):
    """One upstream as one owner sees it: server name, digest of the expanded spec, workspace ("" = shared).

    A tuple because it is looked up for each call: its hash and comparison are the interpreter's own.
    """

    name: str
    digest: str
    workspace: str = ""


class Problem(msgspec.Struct, frozen=True):
    """Why one entry, or one file (`name` ""), cannot be used; shown as a failed row, never raised. `missing` are the
    variables that it waits for, where that is all."""

    name: str
    origin: Origin
    message: str
    missing: tuple[str, ...] = ()


class Want(msgspec.Struct, frozen=True):
    """This instance shall run."""

    spec: ServerSpec


class Off(msgspec.Struct, frozen=True):
    """This entry shall not run, and why: `policy`, `approval`, `person`, `idle`; `detail` is one line with the next
    step.

    `workspace` is the only one that it is off for, where agents of others may use it; "" = it is off for all.
    """

    spec: ServerSpec
    because: str
    detail: str
    workspace: str = ""


class Broken(msgspec.Struct, frozen=True):
    """This entry cannot run: its configuration is wrong."""

    problem: Problem


Desired = Mapping[InstanceKey, Want | Off | Broken]
