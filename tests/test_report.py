"""Rows of the status report, from the values behind them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.auth.failures import Failure, Unmet
from mcphub.auth.home import BROWSER, VAULT, Need
from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.layer import Layer
from mcphub.config.resolve import resolve
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.handshake import Facts
from mcphub.connection.machine import IDLE as IDLE_STATE
from mcphub.connection.machine import Connected, Disabled, Failed, NeedsAuth, Pending, State
from mcphub.connection.source import Source
from mcphub.connection.worker import Worker
from mcphub.gateway import breaker
from mcphub.gateway.circuits import Shown
from mcphub.gateway.holding import Holder
from mcphub.protocol.jsonrpc import Raw
from mcphub.report import (
    IDLE,
    NO_WAY,
    OFFLINE,
    STOPPED,
    held_back,
    in_use,
    is_stopped,
    last_error,
    resident,
    row,
    stale,
    unanswered,
)
from mcphub.spec import Broken, Ide, Off, Problem, Scope, Secret, ServerSpec, StdioSpec, Want, WsSpec
from mcphub.status import ServerStatus
from mcphub.transport.admission import Admission
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.wire import Batch
from tests.fakes.channel import Heard

pytestmark = pytest.mark.anyio

FAULT = Fault(FaultKind.EXITED, "serve", "the server exited with code 3", 3, ("last", "words"), 1_700_000_000.0)
NOW = 1000.0


class Nobody:
    """A sink without ears."""

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None: ...

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool:
        return False


def layers() -> list[Layer]:
    """An entry that the project has, too: the row names who lost."""
    entry = {"command": "db", "args": ["--key", "${KEY:-secret-value}"], "env": {"TOKEN": "secret-token"}}
    data = json.dumps({"mcpServers": {"db": entry}}).encode()
    return [
        parse_file(data, scope=Scope.PROJECT, path="/w/.mcp.json", directory="/w"),
        parse_file(data, scope=Scope.USER, path="/u/mcp.json", directory="/u"),
    ]


RESOLVED = resolve(layers(), Context(), workspace="/w").servers["db"]
assert isinstance(RESOLVED.outcome, ServerSpec)
SPEC = RESOLVED.outcome


def worker(state: State, **fields: Any) -> Worker:
    """A worker at rest, with these values; it is never run."""
    surroundings = Surroundings(Launcher(), Batch(), dict)
    found = Worker(SPEC, surroundings, anyio.CapacityLimiter(1), Backoff(), lambda: None, Nobody(), lambda *_: None)
    found.state = state
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def shown(state: State, **fields: Any) -> ServerStatus:
    return row(SPEC.key(), Want(SPEC), RESOLVED, worker(state, **fields), 2, ["w"], NOW)


@pytest.mark.parametrize(
    ("state", "cells"),
    [
        (Connected(NOW - 12.34), ("connected", "connected", "", None, None)),
        (Pending(0, NOW), ("pending", "pending", "starting", 0, None)),
        (Pending(0, NOW, FAULT), ("pending", "pending", f"reconnecting: {FAULT.message}", 0, None)),
        (Pending(3, NOW + 4.26, FAULT), ("pending", "pending 3/5", FAULT.message, 3, 4.3)),
        (Pending(3, float("inf"), FAULT, offline=True), ("pending", "pending (offline)", OFFLINE, None, None)),
        (Pending(3, NOW - 9), ("pending", "pending 3/5", "", 3, 0.0)),
        (Failed(FAULT, 5), ("failed", "failed", FAULT.message, 5, None)),
        (NeedsAuth("sign in"), ("needs-auth", "needs-auth", "sign in", None, None)),
        (Disabled("person", "run it"), ("disabled", "disabled (person)", "run it", None, None)),
        (Disabled("stopping"), ("disabled", "disabled (stopping)", "stopping", None, None)),
    ],
)
async def test_states(state: State, cells: tuple[Any, ...]) -> None:
    """C085: each state has its cell, its reason and, where it counts, attempts and the time to the next."""
    found = shown(state)
    assert (found["state"], found["state_text"], found["reason"], found["attempt"], found["retry_in"]) == cells
    assert found["attempts"] == 5
    assert found["uptime"] == (12.3 if isinstance(state, Connected) else None)


async def test_a_connected_row() -> None:
    """What the server said, what it costs and what was odd stand in the row; nothing secret does."""
    client = Client(Heard())
    client.counters["noise"] = 2
    facts = Facts("modern", "2026-07-28", {"name": "db"}, {"tools": {}}, "i", (), ("cut short",))
    found = shown(Connected(NOW), facts=facts, client=client, pid=os.getpid(), totals={"noise": 1})
    assert (found["era"], found["version"], found["server_info"]) == ("modern", "2026-07-28", {"name": "db"})
    assert (found["capabilities"], found["tools"]) == ({"tools": {}}, 2)
    assert (found["calls_in_flight"], found["further_sessions"]) == (0, 0)
    assert found["warnings"] == [*RESOLVED.warnings, "w", "cut short"]
    assert found["counters"] == {"noise": 3}
    assert (found["pid"], found["rss"]) == (os.getpid(), resident(os.getpid()))
    assert (found["name"], found["scope"], found["workspace"], found["transport"]) == ("db", "project", "/w", "stdio")
    assert found["origin"]["path"] == "/w/.mcp.json"
    assert [o["path"] for o in found["shadows"]] == ["/u/mcp.json"]
    assert found["command"] == ["db", "--key", "${KEY:-secret-value}"]
    assert "secret-token" not in json.dumps(found)
    assert found["last_error"] is None


@pytest.mark.parametrize(
    ("state", "saved", "age", "says"),
    [
        (Pending(0, NOW), True, 7200.0, "as another daemon saved it, 2 h ago at most, for 7 days at most"),
        (Failed(FAULT, 5), False, 119.0, "as it was 119 s ago, for 7 days at most"),
        (IDLE_STATE, False, 3 * 86_400.0, "as it was 3 d ago, and after 7 days it is started for its lists"),
        (Connected(NOW), False, None, ""),
    ],
)
async def test_how_old_lists_are(state: State, saved: bool, age: float | None, says: str) -> None:
    """What agents see of a server that is away has its age, and its end; there is none of one that never listed."""
    found = worker(state)
    assert stale(found, NOW) == ""
    found.lists.recall((b"a",), {}, Source(), saved=saved)
    found.shelf_life.seen = None if age is None else NOW - age
    assert says in stale(found, NOW) and bool(stale(found, NOW)) is bool(says)
    assert ("stale" in row(SPEC.key(), Want(SPEC), RESOLVED, found, 2, [], NOW)) is bool(says)


async def test_a_list_that_could_not_be_listed_again() -> None:
    """It is named, as long as it is shown."""
    found = worker(Connected(NOW))
    found.lists.recall((b"a",), {}, Source())
    found.lists.doubts.add(("tools/list", "prompts/list"), NOW - 300)
    assert stale(found, NOW).startswith("prompts/list, tools/list changed 5 min ago, or could not")


async def test_a_connected_row_without_a_way() -> None:
    """C167: what is connected, as far as anybody knows, and cannot be reached says so."""
    found = shown(Connected(NOW), severed=True)
    assert (found["warnings"][0], found["reason"], found["layer"]) == (NO_WAY, NO_WAY, "network")
    for other in (shown(Connected(NOW)), shown(Pending(0, NOW), severed=True)):
        assert NO_WAY not in [*other["warnings"], other["reason"]] and other["layer"] == ""


async def test_a_connected_row_whose_credentials_are_refused() -> None:
    """C116: for as long as its server refuses them, a row that is connected says so; its sign-in says it by itself."""
    found = worker(Connected(NOW))
    found.admission = Admission(lambda: NOW - 40, lambda: None)
    found.admission.refused("refuses the credentials of its entry (HTTP 401 Unauthorized)")
    cells = row(SPEC.key(), Want(SPEC), RESOLVED, found, 2, [], NOW)
    assert (cells["state_text"], cells["layer"]) == ("connected", "sign-in")
    assert cells["reason"] == "it refuses the credentials of its entry (HTTP 401 Unauthorized), for 40 s now"
    need = Need(Failure(Unmet.LOGIN_REQUIRED, "nobody has signed in"), BROWSER)
    assert row(SPEC.key(), Want(SPEC), RESOLVED, found, 2, [], NOW, need)["reason"] == ""
    found.state = Pending(1, NOW, FAULT)
    assert row(SPEC.key(), Want(SPEC), RESOLVED, found, 2, [], NOW)["reason"] == FAULT.message
    found.state = Connected(NOW)
    found.admission.accepted()
    cells = row(SPEC.key(), Want(SPEC), RESOLVED, found, 2, [], NOW)
    assert (cells["reason"], cells["layer"]) == ("", "")


async def test_instances_for_nobody() -> None:
    """Of an entry that has an instance a workspace those are rows that somebody has, or one where nobody has any."""
    divided = replace(SPEC, sharing="workspace")

    def vacant(workspace: str, spec: ServerSpec = divided) -> ServerStatus:
        key = spec.key()._replace(workspace=workspace)
        return row(key, Want(spec), RESOLVED, None, None, [], NOW)

    used = row(divided.key(), Want(divided), RESOLVED, worker(Connected(NOW)), 2, [], NOW)
    resting = row(divided.key(), Want(divided), RESOLVED, worker(IDLE_STATE), 2, [], NOW)
    off = row(divided.key(), Off(divided, "person", "off"), RESOLVED, None, None, [], NOW)
    project = vacant("/p", SPEC)
    assert in_use([vacant(""), used, vacant("/a"), project]) == [used, project]
    assert in_use([vacant(""), vacant("/a")]) == [vacant("")]
    assert in_use([used, used, resting, off]) == [used, used, resting, off]
    other = {**vacant("/a"), "name": "other"}
    assert in_use([used, other]) == [used, other]  # type: ignore[list-item]


async def test_what_is_shown_of_a_command() -> None:
    """C025: the command is what the file says, never what it was expanded to."""
    expanded = replace(SPEC, transport=StdioSpec("db", (Secret("s3cr3t"),), shown=("db", "${KEY}")))
    found = row(expanded.key(), Want(expanded), None, None, None, [], NOW)
    assert found["command"] == ["db", "${KEY}"]
    assert "s3cr3t" not in json.dumps(found)


async def test_a_server_that_does_not_run() -> None:
    """Idle, off and wrong entries have rows as complete as the others, with the reason."""
    idle = row(SPEC.key(), Want(SPEC), RESOLVED, None, None, [], NOW)
    assert (idle["state"], idle["state_text"], idle["reason"]) == ("pending", "pending (idle)", IDLE)
    off = row(SPEC.key(), Off(SPEC, "approval", "run `mcphub approve db`"), RESOLVED, None, None, [], NOW)
    assert (off["state_text"], off["reason"]) == ("disabled (approval)", "run `mcphub approve db`")
    assert off["command"]
    problem = Problem("db", SPEC.origin, "cannot use server db: it is wrong")
    broken = row(SPEC.key(), Broken(problem), None, None, None, [], NOW)
    assert (broken["state"], broken["reason"]) == ("failed", "cannot use server db: it is wrong")
    assert broken["last_error"] is not None
    assert broken["last_error"]["remedy"] == "correct the entry, then run `mcphub reconnect db`"
    full = shown(Connected(NOW))
    # What stands there only where there is something to say.
    always = ServerStatus.__annotations__.keys() - {
        "held_back", "nothing_left", "queued", "sign_in", "stale", "unanswered",
    }  # fmt: skip
    assert idle.keys() == off.keys() == broken.keys() == full.keys() == always


@pytest.mark.parametrize(
    ("state", "layer"),
    [
        (Connected(NOW), ""),
        (Pending(0, NOW), ""),
        (Pending(2, NOW, FAULT), "process"),
        (Pending(0, NOW, replace(FAULT, kind=FaultKind.LOST)), "connection"),
        (Pending(0, NOW, offline=True), "network"),
        (Failed(replace(FAULT, kind=FaultKind.TLS), 5), "network"),
        (Failed(replace(FAULT, kind=FaultKind.REFUSED), 5), "server"),
        (NeedsAuth("needs a person to sign in"), "sign-in"),
        (Disabled("person", "off"), "configuration"),
    ],
)
async def test_the_failing_layer(state: State, layer: str) -> None:
    """A row says where it fails, not only that it does."""
    assert shown(state)["layer"] == layer


async def test_what_its_credentials_want() -> None:
    """It is a fact of the row, whatever the state: a server may be connected and lack a scope."""
    failure = Failure(Unmet.INSUFFICIENT_SCOPE, "its sign-in does not allow this")
    need = Need(failure, BROWSER, ("write",))
    running = worker(Connected(NOW))
    found = row(SPEC.key(), Want(SPEC), RESOLVED, running, 1, [], NOW, need)
    assert found["state"] == "connected"
    assert found["sign_in"] == {
        "reason": "insufficient_scope",
        "detail": "its sign-in does not allow this",
        "how": "browser",
        "scopes": ["write"],
    }


async def test_a_process_that_somebody_stopped() -> None:
    """It is seen at once, whatever is in flight; where it goes on nothing is said."""
    async with await anyio.open_process([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        process.send_signal(signal.SIGSTOP)
        with anyio.fail_after(5):
            while not is_stopped(process.pid):  # noqa: ASYNC110
                await anyio.sleep(0.005)
        found = shown(Connected(NOW), pid=process.pid)
        assert (found["state"], found["state_text"], found["slow"]) == ("connected", "connected (stopped)", True)
        assert found["reason"] == STOPPED
        process.send_signal(signal.SIGCONT)
        with anyio.fail_after(5):
            while is_stopped(process.pid):  # noqa: ASYNC110
                await anyio.sleep(0.005)
        assert shown(Connected(NOW), pid=process.pid)["reason"] == ""
        process.kill()
    assert not is_stopped(process.pid) and not is_stopped(None)


async def test_an_attempt_on_its_way() -> None:
    """While the next attempt is made nothing is tried "again now": it is starting, and what failed before stands behind
    that; when it has failed as well, it waits again."""
    state = Pending(2, NOW - 20, FAULT)
    starting = worker(state, _scope=anyio.CancelScope(), _tried=state, pid=os.getpid())
    found = row(SPEC.key(), Want(SPEC), RESOLVED, starting, None, [], NOW)
    assert (found["state_text"], found["attempt"], found["retry_in"]) == ("pending 2/5", 2, None)
    assert found["reason"] == f"starting again, after: {FAULT.message}"
    starting.state = Pending(3, NOW + 4, FAULT)
    found = row(SPEC.key(), Want(SPEC), RESOLVED, starting, None, [], NOW)
    assert (found["reason"], found["retry_in"]) == (FAULT.message, 4.0)


async def test_a_server_that_cannot_be_reached() -> None:
    """A connection that is kept for the calls in flight, while nothing leads to its server, is not shown as a sound
    one; secrets are masked in what is said of it."""

    class Gone:
        slow = "slow: it has not answered anything for 9 s, ping neither"
        unreachable = "unreachable now: nothing listens at secret-token"

    found = shown(Connected(NOW), _probing=Gone())
    assert (found["state"], found["state_text"], found["slow"]) == ("connected", "connected (unreachable)", True)
    assert found["reason"].startswith("unreachable now: nothing listens at ") and found["layer"] == "network"
    assert "secret-token" not in json.dumps(found)


async def test_a_slow_first_start() -> None:
    """C035: while a process is starting, its last word on stderr is part of the reason, its secrets masked."""
    starting = worker(Pending(0, NOW), pid=os.getpid())
    starting.stderr.feed(b"fetched 12 of 40 with secret-token\n")
    found = row(SPEC.key(), Want(SPEC), RESOLVED, starting, None, [], NOW)
    assert found["reason"].startswith("starting; stderr: fetched 12 of 40 with ")
    starting.stderr.feed(b"x" * 4000 + b"\n")
    assert len(row(SPEC.key(), Want(SPEC), RESOLVED, starting, None, [], NOW)["reason"]) < 300
    assert "secret-token" not in json.dumps(found)


@pytest.mark.parametrize(("at", "shown_at"), [(0.0, ""), (1_700_000_000.9, "2023-11-14T22:13:20+00:00")])
async def test_the_last_error(at: float, shown_at: str) -> None:
    """C033: what went wrong last, when, with which code, which last words, and what to do."""
    found = last_error("db", replace(FAULT, at=at), 1_700_000_061.0)
    assert found == {
        "phase": "serve",
        "kind": "exited",
        "message": FAULT.message,
        "remedy": FAULT.remedy("db"),
        "exit_code": 3,
        "stderr_tail": ["last", "words"],
        "at": shown_at,
        "layer": "process",
        "over": False,
        **({"ago": 60.1} if at else {}),
    }
    in_row = shown(Failed(FAULT, 5), last_fault=replace(FAULT, at=at))["last_error"]
    assert in_row is not None and ("ago" in in_row) is bool(at)
    assert {**in_row, "ago": 60.1} == {**found, "ago": 60.1}


@pytest.mark.parametrize(
    ("state", "over"),
    [
        (Connected(NOW), True),
        (IDLE_STATE, True),
        (Pending(0, NOW), True),
        (Disabled("person", "off"), True),
        (Pending(0, NOW, FAULT), False),
        (Pending(2, NOW, FAULT), False),
        (Pending(2, NOW), False),
        (Pending(0, NOW, offline=True), False),
        (Failed(FAULT, 5), False),
        (NeedsAuth("sign in"), False),
    ],
)
async def test_an_error_that_is_over(state: State, over: bool) -> None:
    """Of a server that is well again, or rests, it is said that its last error is past, and nothing is to be done."""
    error = shown(state, last_fault=FAULT)["last_error"]
    assert error is not None
    assert (error["over"], error["remedy"]) == (over, "" if over else FAULT.remedy("db"))
    assert error["message"] == FAULT.message


@pytest.mark.parametrize("pid", [lambda: None, lambda: 2**22 + 12345])
async def test_the_memory_of_a_process_that_is_gone(pid: Callable[[], int | None]) -> None:
    """A process that ended while its row was made has no memory."""
    assert resident(pid()) is None


async def test_the_editor_that_a_server_belongs_to() -> None:
    """Its name, and on which side it runs; nothing for any other server."""
    spec = replace(SPEC, transport=WsSpec(Secret("ws://h/"), ide=Ide("VS Code", True)))
    assert row(spec.key(), Want(spec), None, None, None, (), NOW)["ide"] == {
        "name": "VS Code",
        "running_in_windows": True,
    }
    assert row(SPEC.key(), Want(SPEC), None, None, None, (), NOW)["ide"] is None


async def test_calls_that_are_held_back() -> None:
    """Times are seconds from now; one that is finding out has none before it."""
    shown = Shown("/w", "claude", "read", breaker.State.OPEN, 5, 990.0, 1004.04, "why")
    probing = replace(shown, state=breaker.State.HALF_OPEN)
    first, second = held_back([shown, probing], NOW)
    assert first == {
        "client": "claude", "workspace": "/w", "calls": "read", "state": "open", "failures": 5, "since": 10.0,
        "until": 4.0, "cause": "why",
    }  # fmt: skip
    assert (second["state"], second["until"]) == ("half-open", None)


def test_questions_that_nobody_has_answered() -> None:
    """Who was asked, and for how long."""
    assert unanswered([Holder("claude", "/w", 990.04)], NOW) == [{"client": "claude", "workspace": "/w", "since": 10.0}]


async def test_the_vault_comes_first() -> None:
    """Nobody is sent to sign in while the vault is locked."""
    fault = Fault(FaultKind.NEEDS_AUTH, "handshake", "needs the vault", at=1.0)
    waiting = worker(NeedsAuth("needs the vault"))
    waiting.last_fault = fault
    need = Need(Failure(Unmet.STORE, "it is locked"), VAULT)
    error = row(SPEC.key(), Want(SPEC), RESOLVED, waiting, 1, [], NOW, need)["last_error"]
    assert error is not None and error["remedy"] == "open the vault first: mcphub vault unlock"
    error = row(SPEC.key(), Want(SPEC), RESOLVED, waiting, 1, [], NOW)["last_error"]
    assert error is not None and "mcphub login" in error["remedy"]
