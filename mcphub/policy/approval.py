"""Owns whether a server that a project brings may run: only after a person approved exactly what would run.

It must not know how a decision is stored or asked for. The rule holds before anything is started: a failing start is
execution too.
"""

from __future__ import annotations

import enum
import hashlib
import json

import msgspec

from mcphub.config.resolve import Resolved
from mcphub.spec import HttpSpec, Scope, ServerSpec, StdioSpec
from mcphub.status import ApprovalItem, OriginStatus
from mcphub.store.approvals import Approved, Decision, Decisions


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
    directory and names of variables that came out of it. Values of variables that `env` sets are not in it.
    """

    name: str
    directory: str
    digest: str
    command: tuple[str, ...]
    cwd: str
    env_names: tuple[str, ...]

    def content(self) -> Approved:
        """What the store keeps when this is approved."""
        return Approved(self.digest, self.command, self.cwd, self.env_names)


def subject(resolved: Resolved) -> Subject | None:
    """What approval of this server is about; None where none is needed or there is nothing to run."""
    spec = resolved.spec
    if spec is None or resolved.entry is None or not needs_approval(spec):
        return None
    transport = spec.transport
    # Key order and white space of the file are not content; everything else is.
    content: dict[str, object] = {"raw": resolved.entry.raw}
    shown: tuple[str, ...]
    if isinstance(transport, HttpSpec):
        cwd, shown, names = "", (transport.shown,), tuple(sorted(transport.headers))
        content["url"] = str(transport.url)
    else:
        assert isinstance(transport, StdioSpec)
        cwd, shown, names = transport.cwd, transport.shown, tuple(sorted(transport.env))
        content |= {"command": [transport.command, *(str(arg) for arg in transport.args)], "cwd": cwd, "env": names}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return Subject(spec.name, spec.workspace, digest, shown, cwd, names)


def needs_approval(spec: ServerSpec) -> bool:
    """What a repository brings needs it; what the person wrote does not."""
    return spec.origin.scope is Scope.PROJECT


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


def approval_item(resolved: Resolved, asked: Subject, state: Approval) -> ApprovalItem:
    """The row that the control API gives."""
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
    )
