"""Owns one sign-in of a person, from the first look at who signs people in to the tokens that are kept.

It must not open a browser or print: it says where the person must go, and waits for what comes back, over the callback
or pasted. What was there before stays until the new tokens are kept (case C118).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

import anyio
import msgspec

from mcphub.auth import authorization_code
from mcphub.auth.authorization_code import MOST_STRANGERS, PATIENCE, Pending, Strange
from mcphub.auth.failures import Failure, FlowFailure, SignInFailed, without
from mcphub.spec import Secret
from mcphub.store.vault_state import VaultUnavailable

Pairs = Sequence[tuple[str, str]]


class Arrival(Protocol):
    """One request that came to the callback. It is answered once."""

    @property
    def pairs(self) -> Pairs:
        """Its query, in order."""

    async def answer(self, page: str) -> None:
        """Show a page: `done`, `failed` (nothing of the reason is reflected), `strange` (400: not of this sign-in)."""


class Callback(Protocol):
    """A listener on the loopback, for one sign-in."""

    @property
    def redirect_uri(self) -> str: ...

    async def next(self) -> Arrival:
        """The next request to the callback; anything else was answered already."""


#: Listens on (host, port), port 0 = any free one. Raises SignInFailed (`callback_unavailable`).
Listen = Callable[[str, int], AbstractAsyncContextManager[Callback]]


class Plan(Protocol):
    """What a sign-in is for."""

    @property
    def name(self) -> str:
        """For the log."""

    @property
    def place(self) -> tuple[str, int, int]:
        """(host, port, port) of the callback: as configured, and as it was before; 0 = any. Known once it has begun."""

    async def begin(self) -> None:
        """Find out who signs people in, and that what comes of it can be kept. Raises SignInFailed,
        VaultUnavailable."""

    async def ask(self, redirect_uri: str) -> Question:
        """What the person is asked. Raises as `begin` does."""

    async def finish(self, pending: Pending, code: Secret) -> None:
        """Take what the code is good for. Raises as `begin` does."""

    def log(self, level: str, text: str) -> None: ...


class Question(msgspec.Struct, frozen=True):
    """Where the person goes, and what the answer is compared with. `url` holds `state`: it is that person's alone."""

    pending: Pending
    url: str

    def __repr__(self) -> str:
        return "Question(***)"


class SignIn:
    """One sign-in. `url` is where the person must go, "" before it is known; `host` is whose page that is."""

    def __init__(self, plan: Plan, listen: Listen, *, patience: float = PATIENCE) -> None:
        self.plan = plan
        self.url = ""
        self.host = ""
        #: Where this client's id came from, see records.Registration; "" before it is known.
        self.client = ""
        #: Set once `url` is known, or it has failed before.
        self.begun = anyio.Event()
        #: Set at its end; then `failure` says how, None = signed in. `superseded`: another one took its place.
        self.over = anyio.Event()
        self.failure: Failure | None = None
        self.superseded = False
        self._listen = listen
        self._patience = patience
        self._pasted: Pairs | None = None
        self._wake = anyio.Event()
        self._scope = anyio.CancelScope()
        #: What was sent, which an answer may repeat.
        self._secrets: tuple[str, ...] = ()

    async def run(self) -> None:
        """To its end, in a task of the daemon's. Never raises but when cancelled from outside."""
        try:
            with self._scope:
                await self._run()
            if self._scope.cancelled_caught and self.failure is None:
                self.failure = Failure(FlowFailure.CANCELLED, "the sign-in was cancelled")
        except SignInFailed as e:
            self.failure = without(e.failure, *self._secrets)
        except VaultUnavailable as e:
            self.failure = Failure(FlowFailure.STORE_FAILED, f"cannot keep the tokens: {e}")
        except Exception as e:
            # No more than its name: some hold the text that they are about.
            self.plan.log("error", f"internal error while signing in to {self.plan.name}: {type(e).__name__}")
            self.failure = Failure(FlowFailure.PROVIDER_ERROR, f"internal error: {type(e).__name__}")
        finally:
            self.begun.set()
            self.over.set()

    def cancel(self, *, superseded: bool = False) -> None:
        self.superseded = superseded
        self._scope.cancel()

    def paste(self, url: str) -> None:
        """The address that the browser was sent to, pasted by the person."""
        try:
            pairs = parse_qsl(urlsplit(url.strip()).query, keep_blank_values=True, max_num_fields=32)
        except ValueError:
            pairs = []
        self._pasted = pairs
        self._wake.set()

    async def _run(self) -> None:
        await self.plan.begin()
        async with self._listening() as callback:
            question = await self.plan.ask(callback.redirect_uri)
            self.url, self.host = question.url, urlsplit(question.url).netloc
            self.client = question.pending.client.source
            pending = question.pending
            self._secrets = (pending.state, pending.verifier, pending.nonce, pending.client.secret)
            self.begun.set()
            code, arrival = await self._code(callback, question.pending)
            self._secrets += (code,)
            try:
                await self.plan.finish(question.pending, code)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await _answer(arrival, "failed")
                raise
            await _answer(arrival, "done")

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[Callback]:
        """At the port that is configured, else at the one that this client is registered with, else at any."""
        host, port, before = self.plan.place
        wanted = port or before
        try:
            async with self._listen(host, wanted) as callback:
                yield callback
                return
        except SignInFailed as e:
            if port or not wanted or e.reason is not FlowFailure.CALLBACK_UNAVAILABLE or self.begun.is_set():
                raise
        async with self._listen(host, 0) as callback:
            yield callback

    async def _code(self, callback: Callback, pending: Pending) -> tuple[Secret, Arrival | None]:
        """Wait for the person; returns the code, and what is still to be answered. What belongs to no sign-in of ours
        is answered, counted and waited on."""
        strangers = 0
        with anyio.move_on_after(self._patience):
            while True:
                arrival = await self._next(callback)
                if isinstance(arrival, tuple):
                    code = authorization_code.code_of(pending, arrival)
                    if isinstance(code, Strange):
                        text = f"what was pasted is of another sign-in: {code.detail}"
                        raise SignInFailed(FlowFailure.STATE_MISMATCH, text)
                    return code, None
                try:
                    code = authorization_code.code_of(pending, arrival.pairs)
                except SignInFailed:
                    await arrival.answer("failed")
                    raise
                if not isinstance(code, Strange):
                    return code, arrival
                await arrival.answer("strange")
                strangers += 1
                if strangers >= MOST_STRANGERS:
                    text = f"{strangers} answers came that belong to no sign-in; somebody else may be trying"
                    raise SignInFailed(FlowFailure.STATE_MISMATCH, text)
        raise SignInFailed(FlowFailure.TIMED_OUT, f"nobody signed in within {self._patience:g} s")

    async def _next(self, callback: Callback) -> Arrival | tuple[tuple[str, str], ...]:
        found: list[Arrival] = []
        if self._pasted is None:
            async with anyio.create_task_group() as tasks:

                async def listen() -> None:
                    found.append(await callback.next())
                    tasks.cancel_scope.cancel()

                async def pasted() -> None:
                    await self._wake.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(listen)
                tasks.start_soon(pasted)
        if found:
            return found[0]
        assert self._pasted is not None
        pairs, self._pasted, self._wake = self._pasted, None, anyio.Event()
        return tuple(pairs)


async def _answer(arrival: Arrival | None, page: str) -> None:
    if arrival is not None:
        await arrival.answer(page)
