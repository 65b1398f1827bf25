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
    """What went wrong last. `phase`: config, spawn, probe, handshake, list, serve. `remedy` is what to do next.
    `layer` is where it went wrong: configuration, sign-in, process, network, connection, server, hub; what that means,
    and each `kind`, is in docs/errors.md."""

    phase: str
    kind: str
    message: str
    remedy: str
    exit_code: int | None
    stderr_tail: list[str]
    at: str
    #: what came last on stdout and was no message of the protocol, where something did
    stdout_tail: NotRequired[list[str]]
    layer: NotRequired[str]
    #: how long ago, where that is known
    ago: NotRequired[float]
    #: it is not what keeps the server from working now; `remedy` is "" then
    over: NotRequired[bool]


class IdeStatus(TypedDict):
    """The editor whose extension wrote an entry; `name` "" = it did not say."""

    name: str
    running_in_windows: bool


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
    #: of the calls in mcphub, those that wait for others of this server; `counters` has how many ever did (`queued`),
    #: and how many were turned down (`overloaded`)
    queued: NotRequired[int]
    #: legacy sessions that are open beside the server's own connection
    further_sessions: int
    counters: dict[str, int]
    last_error: LastError | None
    #: which layer keeps it from working, as in `last_error`; "" where nothing does
    layer: NotRequired[str]
    #: who may share this instance: auto, shared, workspace, agent
    sharing: NotRequired[str]
    #: the editor that it belongs to, where it does
    ide: NotRequired[IdeStatus | None]
    #: why agents see none of the tools that it lists, where rules or its entry take all of them away
    nothing_left: NotRequired[str]
    #: the attached agents that use this very instance, as `sessions` numbers them
    used_by: NotRequired[list[int]]
    #: it is connected and takes long to answer what costs nothing, answers nothing at all, cannot be reached now, or
    #: its process is stopped; `reason` says which, and for how long
    slow: NotRequired[bool]
    #: agents see lists that may not be what it has now, of when it was connected last; says how old they are
    stale: NotRequired[str]
    #: what stands between it and its credentials; it may be connected
    sign_in: NotRequired[SignInStatus]
    #: calls of agents that are held back though it is connected, since those before them got no answer
    held_back: NotRequired[list[CircuitStatus]]
    #: agents that have not answered a question of it; where calls take turns those of others wait for them
    unanswered: NotRequired[list[UnansweredStatus]]


class CircuitStatus(TypedDict):
    """Calls of one agent that are held back: those that read (`read`), or those that may write (`write`). `state`: open
    (none goes), half-open (one finds out whether they may go again). `failures` in a row led to it, `cause` is the
    last. `since`: for how long; `until`: after how long one is let through, null while one is."""

    client: str
    workspace: str
    calls: str
    state: str
    failures: int
    since: float
    until: float | None
    cause: str


class UnansweredStatus(TypedDict):
    """An agent that was asked something because of its call. `since`: for how long."""

    client: str
    workspace: str
    since: float


class SignInStatus(TypedDict):
    """What is needed, and how. `reason` is of the closed lists in docs/sign-in.md; `how` is browser (a person signs in:
    `mcphub login NAME`), idp_login (the same, at the organisation), config (its entry must change), vault
    (`mcphub vault unlock`) or wait (nobody is needed: it is tried again, at once by `mcphub reconnect NAME`). `scopes`
    are those that it named as missing."""

    reason: str
    detail: str
    how: str
    scopes: list[str]


class LoginReport(TypedDict):
    """A line of `POST /v1/servers/NAME/login`. `state`: starting, waiting (for a person at `url`, at `host`), done,
    failed, superseded (another sign-in took its place). `how`: browser, idp_login (at the organisation, for all servers
    that take it), none (nobody is needed). `client`: who mcphub is there: config (the entry's id), cimd (its metadata
    document), dcr (it registered itself). Where it failed, `reason` is of the closed lists in docs/sign-in.md, `retry`
    says that it may work later."""

    name: str
    state: str
    how: str
    url: NotRequired[str]
    host: NotRequired[str]
    client: NotRequired[str]
    detail: NotRequired[str]
    reason: NotRequired[str]
    http_status: NotRequired[int]
    oauth_error: NotRequired[str]
    retry: NotRequired[bool]


class PasteReport(TypedDict):
    """`POST /v1/servers/NAME/paste`: it was handed over; the stream of the sign-in says what came of it."""

    name: str


class SignedOutStatus(TypedDict):
    """`revoked`: the authorization server has forgotten the tokens too; None = it has no place to be told. `again`, of
    a server whose tokens are had without a person: it gets others by itself, False = the organisation's login is
    gone."""

    name: str
    revoked: bool | None
    again: NotRequired[bool]


class LogoutReport(TypedDict):
    """`POST /v1/servers/NAME/logout` and `POST /v1/logout`: whose tokens were given up. `idp` is the organisation's
    login; `others` counts what was kept for entries that are not there any more."""

    signed_out: list[SignedOutStatus]
    idp: NotRequired[SignedOutStatus]
    others: NotRequired[int]


class NetworkStatus(TypedDict):
    """What can be reached: `standing` is online, local (no way out of local networks) or offline (no network),
    `since` a moment (ISO 8601, UTC). `waiting` servers are not tried, since there is no way to their hosts."""

    standing: str
    since: str
    waiting: int


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
    network: NotRequired[NetworkStatus]


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
    #: bytes of memory that further processes would take, if each agent had its own of what it shares
    saved: NotRequired[int]


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
    #: how it differs from what it was when its server was first used, where it does
    change: NotRequired[str]


class WithheldTool(TypedDict):
    """A tool that its server lists and agents do not see, under the server's own name, and why."""

    original_name: str
    server: str
    reason: str


class ToolsReport(TypedDict):
    revision: int
    tools: list[ToolStatus]
    withheld: NotRequired[list[WithheldTool]]


class CallReport(TypedDict):
    """`POST /v1/call`: the tool's result as the server gave it, or the JSON-RPC error."""

    tool: str
    server: str
    result: NotRequired[dict[str, Any]]
    error: NotRequired[dict[str, Any]]


class RecordedCall(TypedDict):
    """One call of the outcome journal. `outcome`: open, answered, tool_error (the tool said that it failed), error (a
    JSON-RPC error), not_acted_on, input_required (the server asked first), unknown, task (the agent has its handle);
    `reason` says why for not_acted_on and unknown, in a word, and `text` all of it. Moments are ISO 8601, UTC; `ended`
    None = not yet. `arguments_digest` is keyed, and of the arguments as they were sent. `trace` "" = none. `check` says
    what to look at, of unknown ones."""

    operation: str
    server: str
    tool: str
    agent: str
    workspace: str
    outcome: str
    reason: str
    text: str
    began: str
    ended: str | None
    attempts: int
    arguments_digest: str
    arguments_bytes: int
    trace: str
    agent_era: str
    server_era: str
    check: str


class CallsReport(TypedDict):
    """`GET /v1/calls`, newest first. `more`: there are older ones. `problems` are why calls are not recorded. `live`
    False where no daemon answered, and the file was read: what is open there is unknown."""

    calls: list[RecordedCall]
    more: bool
    problems: list[str]
    live: bool


class ReconnectReport(TypedDict):
    """`POST /v1/reconnect`. `problems` are there where all were asked for: what of the files cannot be used, and was
    read again in vain."""

    reconnected: list[str]
    problems: NotRequired[list[str]]


class LogsReport(TypedDict):
    """`GET /v1/logs/NAME`: the kept tail of the server's stderr, oldest first; `dropped` bytes came before it."""

    name: str
    dropped: int
    lines: list[str]


class ApprovalTexts(TypedDict, total=False):
    """What texts of an entry are once their variables were replaced; only those that differ from what the file says.
    Values of credentials stay references."""

    command: list[str]
    cwd: str
    env_file: str
    helper: str
    ca: str
    oauth: str


class ApprovalItem(TypedDict):
    """A project server and what approving it would run; `state`: approved, waiting, changed, rejected, broken. A broken
    one cannot be approved before its `problem` is mended, and is not expanded.

    Of a remote server `command` is its URL alone, `env_names` the names of its headers, `cwd` "". `reads` are variables
    and secrets that it refers to, `inherits` the variables it takes over ("*" = all), `helper` the program that gives
    its headers, `unpinned` what may be other code the next time. `diff` is against what was approved last: lines that
    begin with `+ `, `- ` or two blanks."""

    name: str
    workspace: str
    origin: OriginStatus
    state: str
    command: list[str]
    cwd: str
    env_names: list[str]
    digest: str
    reads: list[str]
    inherits: list[str]
    env_file: str
    helper: str
    unpinned: list[str]
    diff: list[str]
    warnings: list[str]
    #: what would really run, where the file does not say it by itself
    resolved: NotRequired[ApprovalTexts]
    #: how its credentials are had, as its entry says in `oauth`
    oauth: NotRequired[str]
    #: what its tools say of themselves is believed; `TOOL: ARGUMENT` for each tool that gets an idempotency argument;
    #: `KEY: JSON` for whatever else its entry sets
    trusts_annotations: NotRequired[bool]
    idempotency_arguments: NotRequired[list[str]]
    settings: NotRequired[list[str]]
    #: words of the command that are code of the repository itself, and what is given to a shell
    in_repository: NotRequired[list[str]]
    shell_text: NotRequired[str]
    #: what is missing or wrong
    problem: NotRequired[str]


class ToolChange(TypedDict):
    """A tool that is not as it was when its server was first used, or last approved. `grade`: hints, texts, schema,
    renamed, new; `change` says it in words; `parts` are the members that differ; `diff` are lines that begin with `+ `,
    `- ` or two blanks."""

    tool: str
    grade: str
    change: str
    parts: list[str]
    withheld: bool
    diff: list[str]


class ToolChangesReport(TypedDict):
    """`GET /v1/tool-changes`. `digest` stands for all tools of the server as they are now; `gone` are those that it
    had; `problem` says why nothing is known of what they were."""

    #: why a decision about them could not be kept now; absent where it could
    unwritable: NotRequired[str]

    name: str
    workspace: str
    digest: str
    tools: int
    changes: list[ToolChange]
    gone: list[str]
    problem: str


class AddedReport(TypedDict):
    """`POST /v1/servers`: the server that was added. `workspace` is the directory whose agents see it, "" = all;
    `state_text` and `reason` are of its row, `shadows` what has the same name and does not count now."""

    name: str
    workspace: str
    kept: bool
    state_text: str
    reason: str
    shadows: list[OriginStatus]


class RemovedReport(TypedDict):
    """`DELETE /v1/servers/NAME`: whose agents do not see it any more, "" = all."""

    name: str
    workspace: str


class Claim(TypedDict):
    """One place that has a name. `standing`: effective, shadowed (another one wins), ignored (an enterprise's file is
    alone); `text` says the rest of it, such as what is wrong with it."""

    origin: OriginStatus
    standing: str
    text: str


class WhyStep(TypedDict):
    """One question on the way to a running server. `step`: configured, enterprise, entry, agents, switch, policy,
    approval, duplicate, tools (agents see none; the server runs all the same), connection. `verdict`: yes = it goes
    on, no = it ends here, unknown, unasked. `origin`: what decided."""

    step: str
    verdict: str
    origin: OriginStatus | None
    text: str


class WhyInstance(TypedDict):
    """One instance of an entry that refers to variables which agents bring. `brings`: for agents that brought values of
    their own, else for all others; `agents` are those that use it now, with their numbers."""

    brings: bool
    state: str
    reason: str
    agents: list[str]


class WhyReport(TypedDict):
    """`GET /v1/why/NAME`. `answer` is one sentence, `next` what would change it, most useful first. `claims` are all
    that have the name, by precedence. `suppresses` are servers that run as this one. `near` are names like it, where
    nobody has it, `elsewhere` directories whose agents have it. `live` = a daemon said so, else files alone."""

    name: str
    workspace: str
    configured: bool
    wanted: bool
    state: str
    answer: str
    steps: list[WhyStep]
    claims: list[Claim]
    suppresses: list[OriginStatus]
    next: list[str]
    near: list[str]
    elsewhere: list[str]
    live: bool
    #: variables that the entry refers to and agents may bring (`clientEnv`), and the instances that there are for it
    brought: NotRequired[list[str]]
    instances: NotRequired[list[WhyInstance]]


class PolicyRule(TypedDict):
    """One rule of policy. `list` is the key that it stands below; `rank` that of its document, 1 = highest. A rule that
    is not `in_force` says why not in `note`."""

    rank: int
    list: str
    rule: str
    origin: OriginStatus
    in_force: bool
    note: str


class PolicyReport(TypedDict):
    """`GET /v1/policy`. `closed` is why policy cannot be known in full: while it says anything, only the organisation's
    servers run. `documents` are all that say something, highest rank first."""

    documents: list[OriginStatus]
    rules: list[PolicyRule]
    closed: list[str]
    warnings: list[str]
    live: bool


class PolicyVerdict(TypedDict):
    """`GET /v1/policy/explain`: what policy says of something; `rule` and `origin` are what decided, where something
    did."""

    about: str
    allowed: bool
    rule: str
    origin: OriginStatus | None
    sentence: str
    live: bool


class InventoryEntry(TypedDict):
    """One entry of a layer, secrets masked. `standing` as in `Claim`. `kind`: program, remote, built in, "" = nothing
    that can run; of an effective one `command` or `url` are what it runs or where it is. `variables`: what it is
    depends on the machine's environment; `masked`: a part of it is not shown. `state`: would run (nothing in the files
    is against it), policy, approval, person, enterprise, duplicate, broken, blank, "" where it is not effective;
    `detail` says more. `entry` is as it is written."""

    name: str
    key: str
    line: int
    standing: str
    state: str
    detail: str
    kind: str
    command: list[str]
    url: str
    variables: bool
    masked: bool
    entry: dict[str, Any]
    #: what a daemon says of one that would run, in the words of the status
    live_state: NotRequired[str]


class InventoryLayer(TypedDict):
    """One file, or other place, of one scope; `rank` 1 wins first."""

    rank: int
    scope: str
    path: str
    directory: str
    policy: bool
    entries: list[InventoryEntry]
    problems: list[str]
    warnings: list[str]


class InventoryReport(TypedDict):
    """`GET /v1/config`: every layer and every entry. `format` is "mcphub-inventory"; a reader refuses a `version` that
    it does not know."""

    format: str
    version: int
    workspace: str
    layers: list[InventoryLayer]
    problems: list[str]
    warnings: list[str]
    live: bool


class FindingsReport(TypedDict):
    """What is wrong with a file, and what is probably not meant so. `kind` says what it was read as."""

    path: str
    kind: str
    problems: list[str]
    warnings: list[str]


class BlockedServer(TypedDict):
    """A server that a policy would not let run. `inventory` is where it was found; `certain` False where a part of it
    was not shown, or depends on a machine's environment."""

    inventory: str
    name: str
    origin: OriginStatus
    shown: str
    sentence: str
    certain: bool


class RehearsalReport(TypedDict):
    """What a policy file would do to servers: how many were judged, which would be blocked, which cannot be told."""

    policy: str
    judged: int
    blocked: list[BlockedServer]
    unsure: list[BlockedServer]
    problems: list[str]
    warnings: list[str]


class ApprovalsReport(TypedDict):
    items: list[ApprovalItem]
    #: why a decision could not be kept now; absent where it could
    unwritable: NotRequired[str]


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


class VaultReport(TypedDict):
    """`GET /v1/vault`: whether tokens and secrets can be had. `state`: open, new (nothing is kept yet), locked; then
    `reason` is one of store/vault_state.py's `Trouble`, and `detail` says what to do. `source` is where the key comes
    from; `exists`: there is a file; `live` False where no daemon answered."""

    path: str
    exists: bool
    source: str
    state: str
    reason: str
    detail: str
    warning: str
    live: bool


class SecretStatus(TypedDict):
    """A secret by its name; `servers` are those whose entries refer to it, as far as they are known here."""

    name: str
    servers: list[str]


class SecretsReport(TypedDict):
    """`GET /v1/secrets`. Values are never shown."""

    secrets: list[SecretStatus]
    live: bool


class SecretReport(TypedDict):
    """`POST /v1/secret` and `DELETE /v1/secrets/{name}`: what was kept or taken away, and the servers that use it."""

    name: str
    action: str
    servers: list[str]
    live: bool


class ReloadReport(TypedDict):
    """`POST /v1/reload`: the revision of the status after it."""

    revision: int


class StopReport(TypedDict):
    """`POST /v1/stop`: the process that is now shutting down."""

    pid: int
