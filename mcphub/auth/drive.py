"""Owns how a flow is driven: each request of it is sent, each answer given back, until it ends.

It must not know what any flow is for, nor how a request travels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from mcphub.auth.echo import secrets_of
from mcphub.auth.flow import Answered, Ask, Flow, Reply, T

#: Sends one request and never raises but when cancelled: what goes wrong is an `Unanswered`.
Sender = Callable[[Ask], Awaitable[Reply]]


async def drive(flow: Flow[T], send: Sender) -> T:
    """What the flow returns; raises what it raises."""
    try:
        ask = next(flow)
        while True:
            reply = await send(ask)
            if isinstance(reply, Answered) and (secrets := secrets_of(ask)):
                reply = msgspec.structs.replace(reply, secrets=secrets)
            ask = flow.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        flow.close()
