"""Owns who signs the requests to one server at a URL: the program of its entry's `headersHelper`, or its sign-in.

It must not know what is sent, nor how it is known that a server refuses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mcphub.errors import TransportError
from mcphub.spec import HttpSpec, ServerSpec
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.program_output import output_of
from mcphub.transport.stderr import StderrRing

if TYPE_CHECKING:
    from mcphub.auth.headers_helper import Ran
    from mcphub.net import Signer

#: Bytes and lines that are kept of what a helper writes to stderr.
STDERR = 1 << 16
LINES = 50


def printer(
    launcher: Launcher, environment: Callable[[], Mapping[str, str]]
) -> Callable[[Sequence[str], float, int], Awaitable[str]]:
    """Runs programs that print a workload's token, in the hub's environment."""

    async def printed(words: Sequence[str], within: float, most: int) -> str:
        env = dict(environment())
        try:
            out = await output_of(
                launcher, words, env, env.get("HOME") or "/", StderrRing(STDERR), within=within, most=most
            )
            return out.decode("ascii")
        except TransportError as e:
            why = f"cannot get the workload's token: the program of oauth.assertion: {e}"
        except UnicodeDecodeError:
            why = "the program of oauth.assertion printed no JWT"
        from mcphub.auth.failures import FlowFailure, SignInFailed

        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, why)

    return printed


async def signer_of(spec: ServerSpec, around: Surroundings, note: Callable[[str], None]) -> Signer | None:
    """The helper, which was run for this connection, or who has the tokens; None where the entry has credentials of its
    own, or wants none. Raises TransportError."""
    transport = spec.transport
    assert isinstance(transport, HttpSpec)
    if transport.helper is None:
        return around.credentials.signer(spec, around.hide) if around.credentials is not None else None
    from mcphub.auth.headers_helper import HeadersHelper, Ran

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
