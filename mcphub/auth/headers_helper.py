"""Owns the headers that a server's `headersHelper` gives on one connection: when it is run, and what is sent meanwhile.

It must not know how a program is run, nor what is asked of the server. It is run for each connection, and once more
where what it gave is refused; requests that are refused together share that run (case C116). Its values are secrets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec

from mcphub.auth import helper_output
from mcphub.auth.helper_output import BadOutput
from mcphub.errors import TransportError
from mcphub.spec import SHORTEST_SECRET, HelperSpec, ServerSpec

#: Seconds that it may take.
WITHIN = 10.0
#: Seconds in which it is not run once more where what the last such run brought was never accepted.
REST = 30.0


class Ran(msgspec.Struct, frozen=True):
    """One run: what was printed, or why nothing counts, and the lines that were written to stderr."""

    output: bytes | TransportError
    stderr: tuple[str, ...] = ()


#: Runs the program with these words, environment and directory, within so many seconds; of its output one byte more
#: than so many is read at most.
Run = Callable[[Sequence[str], dict[str, str], str, float, int], Awaitable[Ran]]


class HeadersHelper:
    """Implements net.Signer. `headers` are as they are sent."""

    tries = 1
    login = ""
    due = False

    def __init__(
        self,
        spec: ServerSpec,
        helper: HelperSpec,
        url: str,
        hub_env: Callable[[], dict[str, str]],
        run: Run,
        note: Callable[[str], None],
        hide: Callable[..., None] | None,
    ) -> None:
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self._spec = spec
        self._helper = helper
        self._url = url
        self._hub_env = hub_env
        self._run = run
        self._note = note
        self._hide = hide
        self._one = anyio.Lock()
        self._renewed = float("-inf")
        self._worked = False
        self._version = 0

    async def ready(self) -> None:
        pass

    def version(self) -> int:
        return self._version

    def headers_for(self, method: str, url: str) -> Sequence[tuple[bytes, bytes]]:
        return self.headers

    def noticed(self, nonce: str) -> None:
        pass

    def unoffered(self) -> None:
        pass

    def told(self, message: str) -> tuple[str, str] | None:
        return "refused", rejected(message)

    async def begin(self) -> None:
        """Run it for a new connection. Raises TransportError (kinds `not_found`, `spawn`), naming the server and the
        place of the entry."""
        place = f"{self._spec.origin}.headersHelper"
        hub = self._hub_env()
        env = helper_output.environment(hub, self._helper, self._spec.name, self._url)
        cwd = self._helper.cwd or env.get("HOME") or "/"
        ran = await self._run(list(map(str, self._helper.words)), env, cwd, WITHIN, helper_output.MOST)
        try:
            if isinstance(ran.output, TransportError):
                raise ran.output
            headers, unsent = helper_output.headers_of(ran.output)
            if self._hide is not None:
                self._hide(*helper_output.secrets_of(headers, SHORTEST_SECRET))
        except TransportError as e:
            text = f"cannot get the headers of {self._spec.name}: its helper ({place}): {e}"
            kind = "not_found" if e.kind == "not_found" else "spawn"
            raise TransportError(f"{text}; see `mcphub logs {self._spec.name}`", kind=kind) from None
        except BadOutput as e:
            text = f"cannot get the headers of {self._spec.name}: its helper ({place}): {e}"
            raise TransportError(f"{text}; it must print one JSON object of strings", kind="spawn") from None
        finally:
            # Not before its values are hidden: it may have written them there as well.
            for line in ran.stderr:
                self._note(f"headersHelper: {line}")
        for name in unsent:
            self._note(f"headersHelper: mcphub sets {name} itself, so this value is not used")
        self._version += 1
        self.headers = [(name.encode("ascii"), value.strip(" \t").encode("latin-1")) for name, value in headers.items()]

    def accepted(self) -> None:
        self._worked = True

    async def renewed(self, version: int, status: int, challenges: Sequence[str]) -> bool:
        async with self._one:
            if self._version != version:
                return True
            if not self._worked and anyio.current_time() - self._renewed < REST:
                return False
            fault = ""
            try:
                await self.begin()
            except TransportError as e:
                fault = str(e)
                self._note(fault)
            # Not where the request that runs it is cancelled meanwhile: the next one runs it then.
            self._renewed, self._worked = anyio.current_time(), False
            return not fault


def rejected(message: str) -> str:
    """What a person reads where the server refuses what the helper gave."""
    return f"refuses the credentials that headersHelper printed ({message}); correct the helper"
