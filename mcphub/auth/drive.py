"""Owns how a flow is driven: each request of it is sent, each answer given back, until it ends.

It must not know what any flow is for, nor how a request travels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcphub.auth.flow import Ask, Flow, Reply, T

#: Sends one request and never raises but when cancelled: what goes wrong is an `Unanswered`.
Sender = Callable[[Ask], Awaitable[Reply]]


async def drive(flow: Flow[T], send: Sender) -> T:
    """What the flow returns; raises what it raises."""
    try:
        ask = next(flow)
        while True:
            ask = flow.send(await send(ask))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        flow.close()
