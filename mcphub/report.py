"""Owns how a running instance looks to people: from a worker and what its entry says to a row of the status report.

It must not change anything, nor know who asks. Secrets never come here: the command is shown as the file has it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Sequence
from typing import assert_never

from mcphub.auth.home import VAULT, Need
from mcphub.config.resolve import Resolved
from mcphub.connection.doubts import MOST
from mcphub.connection.faults import Fault
from mcphub.connection.machine import Connected, Disabled, Failed, NeedsAuth, Pending, State
from mcphub.connection.worker import Worker
from mcphub.gateway import breaker
from mcphub.gateway.circuits import Shown
from mcphub.gateway.holding import Holder
from mcphub.kinds import KINDS
from mcphub.questions.place import origin_status
from mcphub.spec import DIVIDED, Broken, HttpSpec, InProcessSpec, InstanceKey, Off, StdioSpec, Want
from mcphub.status import (
    CircuitStatus,
    IdeStatus,
    LastError,
    OriginStatus,
    ServerStatus,
    SignInStatus,
    StateName,
    UnansweredStatus,
)

#: The reason of a project's server whose project no agent works in.
IDLE = "idle: no agent is attached in this workspace"

#: That of a server which is for one agent alone.
AWAITED = "its agent has not said yet what it can do, which the server is told when it is started"

#: That of a server which is started when it is used.
LAZY = "idle: it is started when it is used"


#: That of a server to whose host there is no way now.
OFFLINE = "offline: this machine has no way to its host; it is reconnected when there is one"

STARTING = "starting"

#: For how long lists are shown that nobody could confirm.
KEPT = f"for {MOST / 86_400:.0f} days at most"
ASKED_THEN = f"and after {MOST / 86_400:.0f} days it is started for its lists when an agent asks for one"

#: That of one whose process somebody has stopped.
STOPPED = "its process is stopped (SIGSTOP): it answers nothing until it is continued"

NO_WAY = "this machine has no way to its host now; whether it is still connected is seen when there is one"


def at_second(moment: float) -> str:
    """Seconds since 1970 as ISO 8601, in UTC."""
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(timespec="seconds")


def last_error(name: str, fault: Fault, now: float, *, over: bool = False) -> LastError:
    """`over`: it is not what keeps the server from working now, so nothing is to be done about it. `now` in seconds
    since 1970."""
    at = at_second(fault.at) if fault.at else ""
    error = LastError(
        phase=fault.phase,
        kind=str(fault.kind),
        message=fault.message,
        remedy="" if over else fault.remedy(name),
        exit_code=fault.exit_code,
        stderr_tail=list(fault.stderr),
        at=at,
        layer=KINDS[fault.kind].layer,
        over=over,
    )
    if fault.stdout:
        error["stdout_tail"] = list(fault.stdout)
    if fault.at:
        error["ago"] = round(max(now - fault.at, 0.0), 1)
    return error


def _is_over(state: State) -> bool:
    """Whether what went wrong last is not what it is in this state for."""
    match state:
        case Pending(offline=True):
            return False
        case Pending(idle=True) | Pending(attempt=0, fault=None) | Connected() | Disabled():
            return True
        case _:
            return False


def resident(pid: int | None) -> int | None:
    """Resident bytes of a process, None where it is gone."""
    if pid is None:
        return None
    import psutil  # a fifth of a start-up's imports would otherwise be for a table that nobody may ask for

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def is_stopped(pid: int | None) -> bool:
    """Whether a process is there and stopped (state T of proc(5))."""
    if pid is None:
        return False
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def _state(state: State, attempts: int, now: float) -> tuple[StateName, str, str, int | None, float | None]:
    """(state, text, reason, attempt, retry in)."""
    match state:
        case Connected():
            return "connected", "connected", "", None, None
        case Pending(idle=True):
            return "pending", "pending (idle)", LAZY, None, None
        case Pending(offline=True):
            return "pending", "pending (offline)", OFFLINE, None, None
        case Pending(attempt=0, fault=None):
            return "pending", "pending", STARTING, 0, None
        case Pending(attempt=0, fault=fault):
            return "pending", "pending", f"reconnecting: {fault.message}" if fault else "", 0, None
        case Pending(attempt=attempt, fault=fault):
            reason = fault.message if fault is not None else ""
            return "pending", f"pending {attempt}/{attempts}", reason, attempt, round(max(state.retry_at - now, 0), 1)
        case Failed(fault=fault, attempts=used):
            return "failed", "failed", fault.message, used, None
        case NeedsAuth(challenge=challenge):
            return "needs-auth", "needs-auth", challenge, None, None
        case Disabled(because=because, detail=detail):
            return "disabled", f"disabled ({because})", detail or because, None, None
        case _:
            assert_never(state)


def _layer(state: State) -> str:
    """Which layer keeps it from being connected, "" = none that is known."""
    match state:
        case Pending(offline=True):
            return "network"
        case Pending(fault=Fault(kind=kind)) | Failed(fault=Fault(kind=kind)):
            return KINDS[kind].layer
        case NeedsAuth():
            return KINDS["needs_auth"].layer
        case Disabled():
            return KINDS["disabled"].layer
        case _:
            return ""


def _shown(transport: StdioSpec | HttpSpec | InProcessSpec) -> list[str]:
    """What it runs, or where it is, as it may be printed."""
    if isinstance(transport, StdioSpec):
        return list(transport.shown)
    return [transport.shown] if isinstance(transport, HttpSpec) else []


def stale(worker: Worker, now: float) -> str:
    """That what agents see of its lists may not be what it has now, and how old they are; "" = there is no doubt."""
    lists = worker.lists
    if not worker.listed:
        return ""
    if isinstance(worker.state, Connected):
        if (since := lists.doubts.since) is None:
            return ""
        which = ", ".join(sorted(lists.doubts.methods))
        ago = f"{_span(now - since)} ago"
        return f"{which} changed {ago}, or could not be listed again since then; the last list is shown, {KEPT}"
    seen = worker.shelf_life.seen
    if seen is None:
        return ""
    ago = _span(now - seen)
    how = f"as another daemon saved it, {ago} ago at most" if lists.saved else f"as it was {ago} ago"
    idle = isinstance(worker.state, Pending) and worker.state.idle
    return f"what it offers is shown {how}, {ASKED_THEN if idle else KEPT}"


def refused(worker: Worker, now: float) -> str:
    """What its server says of the credentials that it is sent while it is connected, and since when; "" = nothing."""
    admission = worker.admission
    if not admission.refusal or not isinstance(worker.state, Connected):
        return ""
    return f"it {admission.refusal}, for {_span(now - admission.since)} now"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def in_use(rows: Iterable[ServerStatus]) -> list[ServerStatus]:
    """The rows without those of instances that an entry would have for a workspace or an agent which is not there: of
    an entry that has none at all one is left, so that the server is seen."""
    rows = list(rows)
    found = {_entry(row) for row in rows if not _is_vacant(row)}
    kept = []
    for one in rows:
        if _is_vacant(one):
            if _entry(one) in found:
                continue
            found.add(_entry(one))
        kept.append(one)
    return kept


def _is_vacant(row: ServerStatus) -> bool:
    return row.get("sharing") in DIVIDED and row["reason"] == IDLE


def _entry(row: ServerStatus) -> tuple[str, str, str]:
    """Instances that have it in common are one server."""
    return row["name"], row["origin"]["path"], row["origin"]["key"]


def held_back(circuits: Sequence[Shown], now: float) -> list[CircuitStatus]:
    """The breakers of one server that are not closed."""
    return [
        CircuitStatus(
            client=one.client,
            workspace=one.workspace,
            calls=one.calls,
            state=str(one.state),
            failures=one.failures,
            since=round(now - one.since, 1),
            until=round(max(one.until - now, 0.0), 1) if one.state is breaker.State.OPEN else None,
            cause=one.cause,
        )
        for one in circuits
    ]


def unanswered(holders: Sequence[Holder], now: float) -> list[UnansweredStatus]:
    """The agents that have not answered a question of one server."""
    return [
        UnansweredStatus(client=one.client, workspace=one.workspace, since=round(now - one.since, 1)) for one in holders
    ]


def row(
    key: InstanceKey,
    wish: Want | Off | Broken,
    resolved: Resolved | None,
    worker: Worker | None,
    tools: int | None,
    warnings: Sequence[str],
    now: float,
    need: Need | None = None,
) -> ServerStatus:
    """One row. `worker` is None for what does not run; `need` is what its credentials want."""
    shadows = [origin_status(o) for o in resolved.shadows] if resolved is not None else []
    base = ServerStatus(
        name=key.name,
        scope="",
        workspace=key.workspace,
        state="disabled",
        state_text="",
        reason="",
        attempt=None,
        attempts=0,
        retry_in=None,
        origin=OriginStatus(scope="", path="", key="", line=0),
        shadows=shadows,
        transport="",
        command=[],
        era=None,
        version=None,
        server_info=None,
        capabilities=None,
        tools=None,
        warnings=[*(resolved.warnings if resolved is not None else ()), *warnings],
        pid=None,
        rss=None,
        uptime=None,
        calls_in_flight=0,
        further_sessions=0,
        counters={},
        last_error=None,
        layer="",
        sharing="auto",
        ide=None,
        used_by=[],
        slow=False,
    )
    if isinstance(wish, Broken):
        problem = wish.problem
        base.update(
            {
                "scope": str(problem.origin.scope),
                "origin": origin_status(problem.origin),
                "state": "failed",
                "state_text": "failed",
                "reason": problem.message,
                "layer": KINDS["config"].layer,
                "last_error": LastError(
                    phase="config",
                    kind="config",
                    message=problem.message,
                    remedy=f"correct the entry, then run `mcphub reconnect {key.name}`",
                    exit_code=None,
                    stderr_tail=[],
                    at="",
                    layer=KINDS["config"].layer,
                ),
            }
        )
        return base
    spec = wish.spec
    transport = spec.transport
    base.update(
        {
            "scope": str(spec.origin.scope),
            "origin": origin_status(spec.origin),
            "transport": transport.kind,
            "command": _shown(transport),
            "sharing": spec.sharing,
        }
    )
    if isinstance(transport, HttpSpec) and (ide := transport.ide) is not None:
        base["ide"] = IdeStatus(name=ide.name, running_in_windows=ide.running_in_windows)
    if isinstance(wish, Off):
        base.update({"state": "disabled", "state_text": f"disabled ({wish.because})", "reason": wish.detail})
        base["layer"] = KINDS["disabled"].layer
        return base
    if worker is None:
        base.update({"state": "pending", "state_text": "pending (idle)", "reason": IDLE})
        return base
    state, text, reason, attempt, retry_in = _state(worker.state, worker.attempts, now)
    if worker.trying and attempt:
        reason, retry_in = f"{STARTING} again, after: {reason}" if reason else f"{STARTING} again", None
    if worker.awaits_agent and isinstance(worker.state, Pending) and not worker.state.idle:
        reason = AWAITED
    if state == "pending" and worker.pid is not None and (said := worker.last_words()) and said not in reason:
        reason = f"{reason}; {said}"  # what a slow first start is doing
    if waits := worker.waits:
        reason = waits if reason in ("", STARTING) else f"{reason}; {waits}"
    if stopped := isinstance(worker.state, Connected) and is_stopped(worker.pid):
        text, reason, base["slow"] = f"{text} (stopped)", STOPPED, True
        base["layer"] = "process"
    if unreachable := worker.unreachable:
        text, reason, base["slow"] = f"{text} (unreachable)", unreachable, True
        base["layer"] = KINDS["unreachable"].layer
    elif not stopped and (slow := worker.slow):
        text, reason, base["slow"] = f"{text} (slow)", slow, True
        base["layer"] = "server"
    if need is None and (said := refused(worker, now)):
        reason = f"{said}; {reason}" if reason else said
        base["layer"] = base["layer"] or KINDS["needs_auth"].layer
    if worker.severed and isinstance(worker.state, Connected):
        reason, base["layer"] = f"{NO_WAY}; {reason}" if reason else NO_WAY, "network"
    if layer := _layer(worker.state):
        base["layer"] = layer
    base.update(
        {
            "state": state,
            "state_text": text,
            "reason": reason,
            "attempt": attempt,
            "attempts": worker.attempts,
            "retry_in": retry_in,
            "counters": dict(worker.counters()),
        }
    )
    if need is not None:
        failure = need.failure
        base["sign_in"] = SignInStatus(
            reason=str(failure.reason), detail=failure.detail, how=need.how, scopes=list(need.scopes)
        )
    facts = worker.facts
    if isinstance(worker.state, Connected):
        base["uptime"] = round(now - worker.state.since, 1)
    if old := stale(worker, now):
        base["stale"] = old
    if facts is not None:
        base.update(
            {
                "era": facts.era,
                "version": facts.version,
                "server_info": facts.server_info,
                "capabilities": facts.capabilities,
                "tools": tools,
            }
        )
        base["warnings"] += facts.warnings
    if worker.client is not None:
        base["calls_in_flight"] = worker.client.calls
    if worker.sessions is not None:
        base["calls_in_flight"] += worker.sessions.calls
        base["further_sessions"] = worker.sessions.count
        base["warnings"] += worker.sessions.warnings
    if worker.severed and isinstance(worker.state, Connected):
        base["warnings"].insert(0, NO_WAY)
    base["pid"] = worker.pid
    base["rss"] = resident(worker.pid)
    if worker.last_fault is not None:
        error = base["last_error"] = last_error(
            key.name, worker.last_fault, time.time_ns() / 1e9, over=_is_over(worker.state)
        )
        if need is not None and need.how == VAULT and error["remedy"]:
            error["remedy"] = "open the vault first: mcphub vault unlock"
    return base
