"""Owns what every verb does that changes where servers come from: where it works, and what is said after the change.

It must not write anything. A daemon that runs is told to look at once; one that does not will see the change later.
"""

from __future__ import annotations

import os

import msgspec

from mcphub.cli import output
from mcphub.client import ControlClient, current_workspace
from mcphub.config.entries.context import assumed
from mcphub.config.load import Loaded, load
from mcphub.config.places import Places, places
from mcphub.config.resolve import Resolved
from mcphub.errors import ControlError
from mcphub.policy import approval
from mcphub.spec import Off, Problem
from mcphub.store.approvals import ApprovalStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcphub.status import ServerStatus


class Here(msgspec.Struct, frozen=True):
    """Where a verb was called: the person's places, the directory, and a way to the daemon."""

    places: Places
    workspace: str

    @staticmethod
    def now() -> Here:
        return Here(places(), current_workspace())

    @property
    def client(self) -> ControlClient:
        """Raises ControlError where no socket of this user can be named."""
        try:
            return ControlClient(workspace=self.workspace)
        except OSError as error:
            raise ControlError(f"cannot reach the mcphub daemon: {error}") from error

    def load(self) -> Loaded:
        """Everything that files say for this directory, read now."""
        return load(self.workspace, os.environ, self.places, secret=assumed)

    def row(self, name: str, path: str = "") -> ServerStatus | None:
        """The daemon's row of this server, with a path of the one from that file; None where there is no daemon or no
        such server."""
        return next((row for row in self.rows(name) if path in ("", row["origin"]["path"])), None)

    def rows(self, name: str) -> list[ServerStatus]:
        """All rows of this name, of whatever workspace; none where there is no daemon."""
        try:
            return self.client.status(name)["servers"]
        except ControlError:
            return []

    def tell(self) -> bool:
        """Let a daemon that runs read the files that changed; False = none runs. A daemon that cannot is complained
        about: the change itself is made."""
        try:
            self.client.reload()
        except ControlError as error:
            if error.status:
                output.complain(f"the daemon has not taken the change in: {error}")
            return False
        return True


def standing(here: Here, name: str, path: str, loaded: Loaded) -> list[str]:
    """What a person should know of a server that was just written to `path`: what it hides or is hidden by, and why it
    does not run if it does not. `loaded` is how things are after the change."""
    one = loaded.resolved.servers.get(name)
    if one is None:
        return []
    if one.origin.path != path:
        return [f"{one.origin} has this name too, and wins here"]
    notes: list[str] = []
    if one.shadows:
        notes.append(f"it is used here in place of {', '.join(map(str, one.shadows))}")
    match one.outcome:
        case Off(detail=detail):
            notes.append(f"{name} is off: {detail}")
            return notes
        case Problem(message=message):
            notes.append(message)
            return notes
    row = here.row(name, one.origin.path)
    if row is None:
        notes += _undecided(here, one)
    elif row["state"] not in ("connected", "pending"):
        notes.append(f"{name} is {row['state_text']}: {row['reason']}")
    return notes


def _undecided(here: Here, one: Resolved) -> list[str]:
    """That a server of a project waits for approval, where there is no daemon to say so."""
    asked = approval.subject(one)
    if asked is None:
        return []
    state = approval.decide(asked, ApprovalStore(here.places.approvals).load()[0])
    return [f"{one.name} {approval.detail(asked, state)}"] if state is not approval.Approval.APPROVED else []


def report(fields: dict[str, Any], text: str, notes: list[str], *, as_json: bool) -> None:
    """The end of a verb that has changed something."""
    if as_json:
        print(output.json_text({**fields, "notes": notes}))
        return
    print(output.line(text))
    for note in notes:
        output.complain(note)
