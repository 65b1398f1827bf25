"""Owns who signs the requests to one server at a URL: the program of its entry's `headersHelper`, where there is one.

It must not know what is sent, nor how it is known that a server refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcphub.auth.headers_helper import HeadersHelper, Ran
from mcphub.errors import TransportError
from mcphub.spec import HttpSpec, ServerSpec
from mcphub.transport.link import Surroundings
from mcphub.transport.program_output import output_of
from mcphub.transport.stderr import StderrRing

#: Bytes and lines that are kept of what a helper writes to stderr.
STDERR = 1 << 16
LINES = 50


async def signer_of(spec: ServerSpec, around: Surroundings, note: Callable[[str], None]) -> HeadersHelper | None:
    """The helper, which was run for this connection; None where the entry names none. Raises TransportError."""
    transport = spec.transport
    assert isinstance(transport, HttpSpec)
    if transport.helper is None:
        return None

    async def run(words: Sequence[str], env: dict[str, str], cwd: str, within: float, most: int) -> Ran:
        own = StderrRing(STDERR)
        output: bytes | TransportError
        try:
            output = await output_of(around.launcher, words, env, cwd, own, within=within, most=most)
        except TransportError as e:
            output = e
        return Ran(output, tuple(own.tail(LINES)))

    url = str(transport.url)
    helper = HeadersHelper(spec, transport.helper, url, lambda: dict(around.environment()), run, note, around.hide)
    await helper.begin()
    return helper
