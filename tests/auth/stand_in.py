"""Owns a stand-in for the daemon, as far as methods of getting tokens need it: answers by URL, a clock, a vault in
memory.

It must not decide anything that the code under test decides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcphub.auth.drive import Sender
from mcphub.auth.failures import FlowFailure, SignInFailed
from mcphub.auth.flow import Answered, Ask, Reply
from mcphub.auth.records import Account
from mcphub.spec import IdpSpec
from mcphub.store.challenges import Challenged
from mcphub.store.vault_state import GenerationConflict, Record, VaultState
from tests.auth.transcript import NOW

Answers = Reply | Callable[[Ask], Reply] | list[Reply]


class Memory:
    """Implements home.Safe."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Record] = {}
        self.gen = 0

    @property
    def state(self) -> VaultState:
        return VaultState("memory")

    async def get(self, kind: str, key: str) -> Record | None:
        return self.records.get((kind, key))

    async def put(self, kind: str, key: str, data: bytes, expected_gen: int | None = None) -> int:
        before = self.records.get((kind, key))
        if expected_gen is not None and expected_gen != (before.gen if before is not None else 0):
            raise GenerationConflict("it is another one", before)
        self.gen += 1
        self.records[kind, key] = Record(data, self.gen)
        return self.gen

    async def delete(self, kind: str, key: str, expected_gen: int | None = None) -> bool:
        return self.records.pop((kind, key), None) is not None

    async def list(self, kind: str) -> dict[str, Record]:
        return {key: record for (its, key), record in self.records.items() if its == kind}

    async def ready(self) -> None:
        pass

    async def barred(self) -> None:
        return None


class StandIn:
    """Implements home.Home. `answers` are by URL: one for ever, several each once, or what a function makes of the
    request; `asked` is all that was sent, `told` which of it went to the identity provider."""

    def __init__(self, answers: Mapping[str, Answers], idp: IdpSpec | None = None) -> None:
        self.answers = dict(answers)
        self.asked: list[Ask] = []
        self.told: list[Ask] = []
        self.hidden: list[str] = []
        self.logged: list[str] = []
        self.variables: dict[str, str] = {}
        self.output = ""
        #: URLs that may not be asked, and why.
        self.places: dict[str, str] = {}
        self.time = NOW
        self._memory = Memory()
        self._idp = idp
        self._count = 0

    @property
    def safe(self) -> Memory:
        return self._memory

    def sender(self, account: Account) -> Sender:
        return self._send

    def idp_sender(self, idp: IdpSpec) -> Sender:
        async def send(ask: Ask) -> Reply:
            self.told.append(ask)
            return await self._send(ask)

        return send

    async def _send(self, ask: Ask) -> Reply:
        self.asked.append(ask)
        found = self.answers.get(ask.url, Answered(404))
        if isinstance(found, list):
            assert found, f"unexpected: {ask.url}"
            return found.pop(0)
        return found(ask) if callable(found) else found

    def now(self) -> float:
        return self.time

    def chance(self) -> float:
        return 0.5

    def random(self, size: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(size, "big")

    def environment(self) -> Mapping[str, str]:
        return self.variables

    async def forbidden(self, account: Account, url: str) -> str:
        return self.places.get(url, "")

    def idp(self) -> IdpSpec | None:
        return self._idp

    async def printed(self, words: Sequence[str], within: float, most: int) -> str:
        if not self.output:
            raise SignInFailed(FlowFailure.CLIENT_REQUIRED, f"{words[0]} printed nothing")
        return self.output

    async def looked(self, kind: str, key: str) -> Record | None:
        return await self.safe.get(kind, key)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        raise NotImplementedError

    def turn(self, key: str) -> AbstractAsyncContextManager[None]:
        @asynccontextmanager
        async def held() -> AsyncIterator[None]:
            yield

        return held()

    async def rest(self, seconds: float) -> bool:
        return False

    def hide(self, *values: str, owner: str = "") -> None:
        self.hidden.extend(values)

    def log(self, level: str, text: str) -> None:
        self.logged.append(text)

    def challenged(self, key: str) -> Challenged | None:
        return None

    def remember(self, key: str, challenged: Challenged | None) -> None:
        pass

    def changed(self, account: Account) -> None:
        pass


async def failing(work: Awaitable[Any]) -> SignInFailed:
    """How it fails."""
    try:
        found = await work
    except SignInFailed as e:
        return e
    raise AssertionError(f"it did not fail: {found!r}")
