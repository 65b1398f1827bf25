"""Owns the table of transports: how each kind of server is opened.

It must not know how any of them works. What only remote servers need is imported when the first of them is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from mcphub.channel import Receiver
from mcphub.spec import InProcessSpec, ServerSpec
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing
from mcphub.transport.stdio import open_stdio

Opener = Callable[[ServerSpec, Surroundings, Receiver, StderrRing], AbstractAsyncContextManager[Link]]


def _open_in_process(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AbstractAsyncContextManager[Link]:
    from mcphub.transport.in_process import open_in_process

    assert isinstance(spec.transport, InProcessSpec)
    return open_in_process(spec.transport.name, around.in_process, receiver, around.report, around.grace)


def _open_streamable_http(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AbstractAsyncContextManager[Link]:
    from mcphub.transport.streamable_http import open_streamable_http

    return open_streamable_http(spec, around, receiver, stderr)


def _open_http_sse(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AbstractAsyncContextManager[Link]:
    from mcphub.transport.http_sse import open_http_sse

    return open_http_sse(spec, around, receiver, stderr)


def _open_websocket(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AbstractAsyncContextManager[Link]:
    from mcphub.transport.websocket import open_websocket

    return open_websocket(spec, around, receiver, stderr)


#: How each kind of spec is opened. A new transport is one file and one line here.
TRANSPORTS: Mapping[str, Opener] = {
    "stdio": open_stdio,
    "http": _open_streamable_http,
    "sse": _open_http_sse,
    "ws": _open_websocket,
    "in-process": _open_in_process,
}
