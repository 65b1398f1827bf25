"""Owns whether a server that a project brings may run: only after a person approved exactly what would run.

It must not know how a decision is stored or asked for. The rule holds before anything is started: a failing start is
execution too.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import parse_entry
from mcphub.config.entries.kinds import KEYS, UNUSED_KEYS
from mcphub.config.layer import Entry
from mcphub.config.masking import masked, masked_url
from mcphub.config.resolve import Resolved
from mcphub.spec import HttpSpec, Problem, Scope, ServerSpec, StdioSpec
from mcphub.store.approvals import Approved, Decision, Decisions

from .approval_text import difference, references, refers_to_secret, shown_entry, shown_value

if TYPE_CHECKING:
    # Its many shapes take as long to make as all of this package, and only people ask for them.
    from mcphub.status import ApprovalItem, ApprovalTexts


#: Keys of an entry that are shown as what they set. `tools` is: it has more than arguments.
_SETTINGS = (KEYS - UNUSED_KEYS) - frozenset(
    [
        "type", "command", "args", "env", "envFile", "cwd", "inheritEnv", "url", "headers", "headersHelper", "oauth",
        "trustAnnotations",
    ]
)  # fmt: skip


class Approval(enum.StrEnum):
    """Where one server stands. Only `approved` may run."""

    APPROVED = "approved"
    WAITING = "waiting"
    CHANGED = "changed"
    REJECTED = "rejected"


class Subject(msgspec.Struct, frozen=True):
    """What a person decides about: which server of which directory, and what it would run. Fit to be shown.

    Of a remote server `command` is its URL alone, `env_names` the names of its headers, `cwd` "".

    `digest` stands for the whole content (case C133): the entry as the file has it, and the command, arguments,
    directory and names of variables that came out of it. Values of variables that `env` sets are not in it, nor are
    those of secrets and credentials, wherever they stand.

    What is only shown is made when it is asked for: every tick decides, and few are looked at.
    """

    name: str
    directory: str
    digest: str
    command: tuple[str, ...]
    cwd: str
    env_names: tuple[str, ...]
    source: Entry
    #: (key, text): see `ServerSpec.told`
    told: tuple[tuple[str, str], ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The variables and secrets that are looked up for the entry."""
        return references(self.source.raw, remote=not self.cwd)

    @property
    def inherits(self) -> tuple[str, ...]:
        """What it takes over from the hub's environment; "*" = all of it."""
        value = self.source.raw.get("inheritEnv")
        return ("*",) if value is True else tuple(str(name) for name in value) if isinstance(value, list) else ()

    @property
    def env_file(self) -> str:
        """The file that it takes variables from."""
        return str(self.source.raw.get("envFile", ""))

    @property
    def helper(self) -> str:
        """The program that gives its headers."""
        value = self.source.raw.get("headersHelper")
        return value if isinstance(value, str) else "" if value is None else json.dumps(value)

    @property
    def oauth(self) -> str:
        """How its credentials are had, "" = as it says itself; secrets masked."""
        value = self.source.raw.get("oauth")
        return shown_value(value, "oauth") if value else ""

    @property
    def trusts_annotations(self) -> bool:
        """What its tools say of themselves is believed: by that word calls are made again, and not recorded."""
        return self.source.raw.get("trustAnnotations") is True

    @property
    def idempotency_arguments(self) -> tuple[str, ...]:
        """`TOOL: ARGUMENT` for each tool of which calls are made again, known to the server by that argument."""
        tools = self.source.raw.get("tools")
        said = tools.items() if isinstance(tools, dict) else ()
        found = [(name, one.get("idempotencyArgument")) for name, one in said if isinstance(one, dict)]
        return tuple(f"{name}: {argument}" for name, argument in found if argument)

    @property
    def settings(self) -> tuple[str, ...]:
        """`KEY: JSON` for each key of the entry that none of the others shows; secrets masked."""
        raw = self.source.raw
        return tuple(f"{key}: {shown_value(raw[key], key)}" for key in sorted(raw.keys() & _SETTINGS))

    @property
    def unpinned(self) -> tuple[str, ...]:
        """The packages and images that may be others the next time."""
        if not self.cwd:
            return ()
        # What only a person's question takes is loaded for it: the daemon starts without.
        from .unpinned import unpinned

        return unpinned(self.resolved_command)

    @property
    def in_repository(self) -> tuple[str, ...]:
        """What of the command is code of the repository itself: its content is no part of what is approved."""
        where = dict(self.told).get("cwd", self.cwd)
        if not self.cwd:
            return ()
        from .repository_code import repository_code

        return repository_code(self.resolved_command, where, self.directory)

    @property
    def shell_text(self) -> str:
        """What is given to a shell, which nobody looks into but for what is plain."""
        if not self.cwd:
            return ""
        from .shell_text import shell_text

        return shell_text(self.resolved_command)

    @property
    def resolved_command(self) -> tuple[str, ...]:
        """`command` with its variables replaced, as it may be shown."""
        if not self.command:  # of an entry that cannot be read
            return ()
        told = dict(self.told)
        keys = ["command", *(f"args[{index}]" for index in range(len(self.command) - 1))] if self.cwd else ["url"]
        return tuple(told.get(key, text) for key, text in zip(keys, self.command, strict=True))

    def resolved(self) -> ApprovalTexts:
        """What differs from the file once variables were replaced."""
        from mcphub.status import ApprovalTexts

        told = dict(self.told)
        found = ApprovalTexts()
        if self.resolved_command != self.command:
            found["command"] = list(self.resolved_command)
        if self.cwd and told.get("cwd", self.cwd) != self.cwd:
            found["cwd"] = told["cwd"]
        if "envFile" in told:
            found["env_file"] = told["envFile"]
        if "headersHelper" in told:
            found["helper"] = told["headersHelper"]
        if "tls.ca" in told:
            found["ca"] = told["tls.ca"]
        if signing_in := [f"{key}={text}" for key, text in self.told if key.startswith("oauth.")]:
            found["oauth"] = ", ".join(signing_in)
        return found

    def content(self) -> Approved:
        """What the store keeps when this is approved."""
        url = not self.cwd  # a program of a project always starts somewhere
        command = tuple(masked_url(one) if url else masked(one) for one in self.command)
        return Approved(self.digest, command, self.cwd, self.env_names, shown_entry(self.source.raw))


def subject(resolved: Resolved) -> Subject | None:
    """What approval of this server is about; None where none is needed or there is nothing to run."""
    spec = resolved.spec
    if spec is None or resolved.entry is None or not needs_approval(spec):
        return None
    transport = spec.transport
    raw = resolved.entry.raw
    # Key order and white space of the file are not content; everything else is.
    content: dict[str, object] = {"raw": raw}
    shown: tuple[str, ...]
    if isinstance(transport, HttpSpec):
        cwd, shown, names = "", (transport.shown,), tuple(sorted(transport.headers))
        content["url"] = _known(transport.shown, transport.url)
        if transport.helper is not None:
            # No secret can be in them: what a repository writes gets no credential (config.entries.http).
            content["helper"] = [*map(str, transport.helper.words), transport.helper.cwd]
        if signing_in := [one for one in spec.told if one[0].startswith("oauth.")]:
            content["oauth"] = signing_in
    else:
        assert isinstance(transport, StdioSpec)
        cwd = transport.shown_cwd or transport.cwd
        shown, names = transport.shown, tuple(sorted(transport.env))
        expanded = (transport.command, *transport.args)
        command = [_known(text, value) for text, value in zip(shown, expanded, strict=True)]
        content |= {"command": command, "cwd": transport.cwd, "env": names}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return Subject(spec.name, spec.workspace, digest, shown, cwd, names, resolved.entry, spec.told)


def _known(text: str, value: str) -> str:
    """What a text of the file stands for, unless a secret is part of it: then what the file says."""
    return text if refers_to_secret(text) else str(value)


def needs_approval(spec: ServerSpec) -> bool:
    """What a repository brings needs it; what the person wrote does not."""
    return spec.origin.scope is Scope.PROJECT


def unusable(resolved: Resolved) -> Problem | None:
    """Why a server that a project brings cannot be approved yet, None where it can, or needs no approval."""
    mine = resolved.origin.scope is Scope.PROJECT and isinstance(resolved.outcome, Problem)
    return resolved.outcome if mine and isinstance(resolved.outcome, Problem) else None


def unusable_item(resolved: Resolved, problem: Problem, decisions: Decisions) -> ApprovalItem:
    """The row of such a server: what its entry says as far as it can be read, and what is missing or wrong."""
    asked = None
    if (entry := resolved.entry) is not None:
        off = parse_entry(entry, resolved.directory, Context(switched_off={resolved.name: ""}))
        asked = subject(msgspec.structs.replace(resolved, outcome=off.outcome))
    nothing = Entry(resolved.name, {}, resolved.origin)
    asked = asked or Subject(resolved.name, resolved.workspace, "", (), "", (), nothing)
    rejected = decisions.get((resolved.workspace, resolved.name), Decision()).rejected
    item = approval_item(resolved, asked, Approval.REJECTED if rejected else Approval.WAITING, decisions)
    item |= {"digest": "", "diff": [], "problem": problem.message}
    return item if rejected else item | {"state": "broken"}


def decide(asked: Subject, decisions: Decisions) -> Approval:
    """Where `asked` stands. A rejection wins over everything; another content than an approved one is `changed`."""
    decision = decisions.get((asked.directory, asked.name), Decision())
    if decision.rejected:
        return Approval.REJECTED
    if any(one.digest == asked.digest for one in decision.approved):
        return Approval.APPROVED
    return Approval.CHANGED if decision.approved else Approval.WAITING


def detail(asked: Subject, state: Approval) -> str:
    """One line on why it does not run and what to do next; "" when it may."""
    match state:
        case Approval.APPROVED:
            return ""
        case Approval.WAITING:
            return f"waits for your approval; see what it runs and allow it: mcphub approve {asked.name}"
        case Approval.CHANGED:
            return f"changed since you approved it; see what it runs now: mcphub approve {asked.name}"
        case Approval.REJECTED:
            return f"rejected by you; to allow it after all: mcphub approve {asked.name}"


def changes(asked: Subject, decisions: Decisions) -> tuple[str, ...]:
    """The lines that differ from what was approved last; () where nothing was approved, or it is this."""
    approved = decisions.get((asked.directory, asked.name), Decision()).approved
    if not approved or any(one.digest == asked.digest for one in approved):
        return ()
    return difference(approved[-1], asked.content())


def approval_item(
    resolved: Resolved, asked: Subject, state: Approval, decisions: Decisions, warnings: Sequence[str] = ()
) -> ApprovalItem:
    """The row that the control API gives; `warnings` are those about its file."""
    from mcphub.status import ApprovalItem, OriginStatus

    origin = resolved.origin
    return ApprovalItem(
        name=asked.name,
        workspace=asked.directory,
        origin=OriginStatus(scope=str(origin.scope), path=origin.path, key=origin.key, line=origin.line),
        state=str(state),
        command=list(asked.command),
        cwd=asked.cwd,
        env_names=list(asked.env_names),
        digest=asked.digest,
        reads=list(asked.reads),
        inherits=list(asked.inherits),
        env_file=asked.env_file,
        helper=asked.helper,
        oauth=asked.oauth,
        trusts_annotations=asked.trusts_annotations,
        idempotency_arguments=list(asked.idempotency_arguments),
        settings=list(asked.settings),
        unpinned=list(asked.unpinned),
        in_repository=list(asked.in_repository),
        shell_text=asked.shell_text,
        diff=list(changes(asked, decisions)),
        warnings=[*warnings, *resolved.warnings],
        resolved=asked.resolved(),
    )
