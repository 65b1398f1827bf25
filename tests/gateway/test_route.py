"""What an agent is told when a call cannot go anywhere."""

from __future__ import annotations

import pytest

from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.machine import Connected, Disabled, Failed, NeedsAuth, Pending, State
from mcphub.gateway.route import not_running, unavailable, why_unavailable
from mcphub.kinds import KINDS
from mcphub.spec import Broken, InProcessSpec, Off, Origin, Problem, Scope, ServerSpec

ORIGIN = Origin(Scope.PROJECT, "/w/.mcp.json", "mcpServers.db", 3)
GONE = Fault(FaultKind.EXITED, "serve", "the server exited with code 3")


@pytest.mark.parametrize(
    ("state", "retry_in", "says"),
    [
        (None, 0.0, "The server db was removed from the configuration; its tools are gone. List the tools again."),
        (Connected(0), 0.0, "The server db has just been lost; mcphub reconnects to it. Try again in a few seconds."),
        (Pending(0, 0), 0.0, "The server db is starting. Try again in a few seconds; `mcphub status db` shows more."),
        (
            Pending(0, float("inf"), offline=True),
            float("inf"),
            "The server db cannot be reached: this machine is offline, or has no way to the server's host. mcphub "
            "reconnects as soon as there is one. Go on without it.",
        ),
        (
            Pending(0, 0, once=True),
            0.0,
            "The server db had failed and is being tried once more. Try again in a few seconds; `mcphub status db` "
            "shows more.",
        ),
        (
            Pending(3, 9, GONE),
            3.6,
            "The server db is down: the server exited with code 3. mcphub tries again in 4 s (retry 3); "
            "`mcphub reconnect db` tries at once.",
        ),
        (
            Pending(1, 0),
            -2.0,
            "The server db is down. It is being tried again (retry 1). Try again in a few seconds; `mcphub status db` "
            "shows more.",
        ),
        (
            Failed(GONE, 5),
            0.0,
            "The server db has failed: the server exited with code 3. What to do: read `mcphub logs db`; the program "
            "ends by itself.",
        ),
        (
            NeedsAuth("needs x"),
            0.0,
            "The server db needs x. A person must do that, then run `mcphub reconnect db`.",
        ),
        (Disabled("person"), 0.0, "The server db is disabled (person)."),
        (Disabled("idle", "Nobody works there."), 0.0, "The server db is disabled (idle). Nobody works there."),
    ],
)
def test_every_state_has_a_sentence_and_a_next_step(state: State | None, retry_in: float, says: str) -> None:
    """The model, and the person behind it, read which server, what is wrong, and what to do."""
    assert unavailable("db", state, retry_in) == says


@pytest.mark.parametrize(
    ("state", "retry_in", "kind", "more"),
    [
        (None, 0.0, "removed", {}),
        (Connected(0), 0.0, "unavailable", {}),
        (Pending(0, 0), 0.0, "unavailable", {}),
        (Pending(0, float("inf"), offline=True), float("inf"), "unavailable", {"layer": "network"}),
        (Pending(3, 9, GONE), 3.6, "unavailable", {"retryAfterMs": 3600, "fault": "exited", "layer": "process"}),
        (Pending(1, 0), -2.0, "unavailable", {"retryAfterMs": 0}),
        (Failed(GONE, 5), 0.0, "server_failed", {"fault": "exited", "layer": "process"}),
        (NeedsAuth("needs x"), 0.0, "needs_auth", {}),
        (Disabled("person"), 0.0, "disabled", {}),
    ],
)
def test_every_state_has_a_kind(state: State | None, retry_in: float, kind: str, more: dict[str, object]) -> None:
    """Programs read whether it may be tried again, when, and which layer fails."""
    assert why_unavailable(state, retry_in) == (kind, more)
    assert kind in KINDS


def test_servers_that_do_not_run_at_all() -> None:
    """An entry that is switched off, waits for a person or is wrong says so, too."""
    spec = ServerSpec("db", ORIGIN, InProcessSpec("db"))
    assert not_running("db", Off(spec, "approval", "run `mcphub approve db`")) == (
        "The server db is disabled (approval): run `mcphub approve db`"
    )
    broken = Broken(Problem("db", ORIGIN, "cannot use server db: `command` is missing"))
    assert not_running("db", broken) == (
        "The server db cannot run: cannot use server db: `command` is missing. A person must correct the entry."
    )
