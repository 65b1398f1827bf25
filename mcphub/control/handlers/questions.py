"""Owns the routes of what people ask about configuration: why, policy, the inventory.

It must not know how an answer is found.
"""

from __future__ import annotations

import msgspec

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request
from mcphub.errors import ControlError


async def get_why(hub: Hub, request: Request) -> Reply:
    """Where a server stands: file and key, what it wins over, policy, approval, connection, and what would change it.

    Query: `workspace`.
    Answers: `WhyReport`, also for a name that nobody has.
    """
    return Reply(hub.why(request.workspace, request.path["name"]))


async def get_policy(hub: Hub, request: Request) -> Reply:
    """Every rule of policy with its place and rank, and whether it counts.

    Query: `workspace`.
    Answers: `PolicyReport`.
    """
    return Reply(hub.policy(request.workspace))


async def get_verdict(hub: Hub, request: Request) -> Reply:
    """What policy says of a server that need not be configured.

    Query: `workspace`, `name`, `url`, `command` (a JSON list of strings); what a server runs counts before its name.
    Answers: `PolicyVerdict`; 400 where none of them is given.
    """
    name, url = request.query.get("name", ""), request.query.get("url", "")
    text = request.query.get("command", "")
    try:
        command = msgspec.json.decode(text, type=tuple[str, ...]) if text else ()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ControlError("cannot read `command`: it must be a JSON list of strings", status=400) from None
    if not (name or url or command) or (command and not command[0]):
        raise ControlError("cannot ask policy: give `name`, `url` or `command`", status=400)
    return Reply(hub.policy_verdict(request.workspace, name, url, command))


async def get_config(hub: Hub, request: Request) -> Reply:
    """Every layer and every entry, secrets masked: the inventory of this machine.

    Query: `workspace`.
    Answers: `InventoryReport`.
    """
    return Reply(hub.inventory(request.workspace))
