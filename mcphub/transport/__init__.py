"""Owns how bytes reach a server and come back: framing, processes, in-process servers.

It must not know what a message means, nor states, retries or agents. Start at wire.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from mcphub.channel import Receiver
from mcphub.spec import InProcessSpec, ServerSpec
from mcphub.transport.in_process import open_in_process
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing
from mcphub.transport.stdio import open_stdio
from mcphub.transport.streamable_http import open_streamable_http

Opener = Callable[[ServerSpec, Surroundings, Receiver, StderrRing], AbstractAsyncContextManager[Link]]


def _open_in_process(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AbstractAsyncContextManager[Link]:
    assert isinstance(spec.transport, InProcessSpec)
    return open_in_process(spec.transport.name, around.in_process, receiver, around.report)


#: How each kind of spec is opened. A new transport is one file and one line here.
TRANSPORTS: Mapping[str, Opener] = {
    "stdio": open_stdio,
    "http": open_streamable_http,
    "in-process": _open_in_process,
}
