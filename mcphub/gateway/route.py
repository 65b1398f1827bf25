"""Owns the answer to where a call may go now: to its server, or nowhere and what to tell the agent.

It must not send anything. The texts are read by models and people: what is wrong, and the next step.
"""

from __future__ import annotations

from typing import assert_never

from mcphub.connection.faults import Fault
from mcphub.connection.machine import Connected, Disabled, Failed, NeedsAuth, Pending, State
from mcphub.kinds import KINDS
from mcphub.spec import Broken, Off


def not_running(name: str, wish: Off | Broken) -> str:
    """Why a configured server does not run at all, in one or two sentences."""
    if isinstance(wish, Broken):
        return f"The server {name} cannot run: {wish.problem.message}. A person must correct the entry."
    return f"The server {name} is disabled ({wish.because}): {wish.detail}"


def why_unavailable(state: State | None, retry_in: float) -> tuple[str, dict[str, object]]:
    """The same as `unavailable` for programs: (kind, what else is known of it)."""
    match state:
        case None:
            return "removed", {}
        case Connected():
            return "unavailable", {}
        case Pending(offline=True):
            return "unavailable", {"layer": "network"}
        case Pending(attempt=0):
            return "unavailable", {}
        case Pending(fault=fault):
            return "unavailable", {"retryAfterMs": max(round(retry_in * 1000), 0), **_fault(fault)}
        case Failed(fault=fault):
            return "server_failed", _fault(fault)
        case NeedsAuth():
            return "needs_auth", {}
        case Disabled():
            return "disabled", {}
        case _:
            assert_never(state)


def _fault(fault: Fault | None) -> dict[str, object]:
    return {"fault": str(fault.kind), "layer": KINDS[fault.kind].layer} if fault is not None else {}


def starts_too_slowly(name: str, limit: float) -> str:
    """What is said of a call whose time was over before its server had started."""
    return (
        f"The server {name} has not started within the {limit:g} s that a call may take; nothing was sent to it. "
        f"It goes on starting: try again later; `mcphub status {name}` shows more."
    )


def unavailable(name: str, state: State | None, retry_in: float) -> str:
    """Why a server cannot be called in this state, in one or two sentences. `retry_in` seconds until the next try."""
    match state:
        case None:
            return f"The server {name} was removed from the configuration; its tools are gone. List the tools again."
        case Connected():
            return f"The server {name} has just been lost; mcphub reconnects to it. Try again in a few seconds."
        case Pending(offline=True):
            return (
                f"The server {name} cannot be reached: this machine is offline, or has no way to the server's host. "
                "mcphub reconnects as soon as there is one. Go on without it."
            )
        case Pending(once=True):
            return (
                f"The server {name} had failed and is being tried once more. Try again in a few seconds; "
                f"`mcphub status {name}` shows more."
            )
        case Pending(attempt=0):
            return f"The server {name} is starting. Try again in a few seconds; `mcphub status {name}` shows more."
        case Pending(attempt=attempt, fault=fault):
            why = f": {fault.message}" if fault is not None else ""
            if retry_in <= 0:
                return (
                    f"The server {name} is down{why}. It is being tried again (retry {attempt}). Try again in a few "
                    f"seconds; `mcphub status {name}` shows more."
                )
            return (
                f"The server {name} is down{why}. mcphub tries again in {retry_in:.0f} s (retry {attempt}); "
                f"`mcphub reconnect {name}` tries at once."
            )
        case Failed(fault=fault):
            return f"The server {name} has failed: {fault.message}. What to do: {fault.remedy(name)}."
        case NeedsAuth(challenge=challenge):
            itself = "mcphub login" in challenge or "mcphub vault unlock" in challenge
            after = "" if itself else f", then run `mcphub reconnect {name}`"
            return f"The server {name} {challenge}. A person must do that{after}."
        case Disabled(because=because, detail=detail):
            return f"The server {name} is disabled ({because}). {detail}".rstrip()
        case _:
            assert_never(state)
