"""One sign-in of a person, from its beginning to each of its ends; the callback is played."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from mcphub.auth import authorization_code
from mcphub.auth.authorization_code import MOST_STRANGERS, Pending
from mcphub.auth.failures import FlowFailure, SignInFailed
from mcphub.auth.records import Registration
from mcphub.auth.sign_in import Question, SignIn
from mcphub.spec import Secret
from mcphub.store.vault_state import Trouble, VaultUnavailable
from tests.auth.transcript import SERVER

pytestmark = pytest.mark.anyio
Pairs = Sequence[tuple[str, str]]


class Came:
    """Implements sign_in.Arrival."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.pages: list[str] = []
        self.answered = anyio.Event()

    async def answer(self, page: str) -> None:
        self.pages.append(page)
        self.answered.set()


class Listener:
    """Implements sign_in.Callback and Listen: what comes is put there by the test."""

    def __init__(self, *taken: int) -> None:
        self.places: list[tuple[str, int]] = []
        self.open = 0
        self._taken = taken
        self._send, self._receive = anyio.create_memory_object_stream[Came](100)

    @asynccontextmanager
    async def __call__(self, host: str, port: int) -> AsyncIterator[Listener]:
        self.places.append((host, port))
        if port in self._taken:
            raise SignInFailed(FlowFailure.CALLBACK_UNAVAILABLE, f"port {port} is taken")
        self.open += 1
        try:
            yield self
        finally:
            self.open -= 1

    @property
    def redirect_uri(self) -> str:
        host, port = self.places[-1]
        return f"http://{host}:{port or 50000}/callback"

    async def next(self) -> Came:
        return await self._receive.receive()

    def arrive(self, *pairs: tuple[str, str]) -> Came:
        came = Came(pairs)
        self._send.send_nowait(came)
        return came

    def close(self) -> None:
        self._send.close()
        self._receive.close()


class Plan:
    """Implements sign_in.Plan."""

    name = "s"

    def __init__(self, *place: int) -> None:
        port, before = place or (0, 0)
        self.place = ("127.0.0.1", port, before)
        self.pending: Pending | None = None
        self.finished: list[str] = []
        self.logged: list[str] = []
        self.at: dict[str, Callable[[], None]] = {}

    def log(self, level: str, text: str) -> None:
        self.logged.append(text)

    def _step(self, name: str) -> None:
        self.at.get(name, lambda: None)()

    async def begin(self) -> None:
        self._step("begin")

    async def ask(self, redirect_uri: str) -> Question:
        self._step("ask")
        client = Registration("c", "dcr", SERVER.issuer)
        self.pending = authorization_code.begin(SERVER, client, redirect_uri, "", (), os.urandom)
        return Question(self.pending, authorization_code.authorization_url(self.pending))

    async def finish(self, pending: Pending, code: Secret) -> None:
        self._step("finish")
        assert pending is self.pending
        self.finished.append(str(code))

    @property
    def state(self) -> tuple[str, str]:
        assert self.pending is not None
        return ("state", str(self.pending.state))


def raising(error: Exception) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


@asynccontextmanager
async def signing_in(plan: Plan, listener: Listener, patience: float = 30.0) -> AsyncIterator[SignIn]:
    """It runs, and has said where to go or failed; at the end of the block it must have ended."""
    one = SignIn(plan, listener, patience=patience)
    try:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.run)
                await one.begun.wait()
                yield one
                await one.over.wait()
        assert listener.open == 0  # it listens no longer than it must (C100)
    finally:
        listener.close()


def reason(one: SignIn) -> str:
    assert one.failure is not None
    return str(one.failure.reason)


async def test_a_sign_in() -> None:
    """The page says that it is done only once the tokens are kept."""
    plan, listener = Plan(), Listener()
    async with signing_in(plan, listener) as one:
        assert one.url.startswith("https://as.example/authorize?") and one.host == "as.example"
        assert not one.over.is_set() and listener.open == 1
        came = listener.arrive(("code", "x"), plan.state)
    assert (plan.finished, came.pages, one.failure) == (["x"], ["done"], None)


async def test_strangers() -> None:
    """C100: what is of no sign-in is answered as such and waited on; old tabs end nothing."""
    plan, listener = Plan(), Listener()
    async with signing_in(plan, listener) as one:
        strange = [listener.arrive(), listener.arrive(("code", "x"), ("state", "old"))]
        for came in strange:
            await came.answered.wait()
        assert not one.over.is_set()
        good = listener.arrive(("code", "x"), plan.state)
    assert [came.pages for came in strange] == [["strange"], ["strange"]] and good.pages == ["done"]


async def test_many_strangers() -> None:
    """C100: five of them end it: somebody may be guessing."""
    plan, listener = Plan(), Listener()
    async with signing_in(plan, listener) as one:
        came = [listener.arrive(("state", str(number))) for number in range(MOST_STRANGERS)]
    assert reason(one) == "state_mismatch" and {tuple(each.pages) for each in came} == {("strange",)}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("error", "access_denied")], "denied"),
        ([("error", "server_error")], "provider_error"),
        ([("code", "x"), ("iss", "https://evil.example")], "issuer_mismatch"),
    ],
)
async def test_answers_that_end_it(pairs: Pairs, expected: str) -> None:
    """The page says so, and nothing of the reason."""
    plan, listener = Plan(), Listener()
    async with signing_in(plan, listener) as one:
        came = listener.arrive(*pairs, plan.state)
    assert (reason(one), came.pages, plan.finished) == (expected, ["failed"], [])


async def test_a_pasted_address() -> None:
    """Without a browser here: the same checks; an address of another sign-in ends it at once."""
    plan, listener = Plan(), Listener()
    async with signing_in(plan, listener) as one:
        name, state = plan.state
        one.paste(f"  http://127.0.0.1:50000/callback?code=x&{name}={state}\n")
    assert (plan.finished, one.failure) == (["x"], None)
    for text in ("", "nonsense", "http://127.0.0.1/callback?code=x&state=old", "http://[", "http://x/?" + "a=b&" * 99):
        plan, listener = Plan(), Listener()
        async with signing_in(plan, listener) as one:
            one.paste(text)
        assert reason(one) == "state_mismatch" and plan.finished == []


async def test_nobody_comes() -> None:
    """It has a deadline (S9)."""
    async with signing_in(Plan(), Listener(), patience=0.05) as one:
        pass
    assert reason(one) == "timed_out"


async def test_it_is_given_up() -> None:
    """C118: cancelled by the person, or another one took its place; neither raises anything."""
    for superseded in (False, True):
        async with signing_in(Plan(), Listener()) as one:
            one.cancel(superseded=superseded)
        assert reason(one) == "cancelled" and one.superseded is superseded


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SignInFailed(FlowFailure.DISCOVERY_FAILED, "x"), "discovery_failed"),
        (VaultUnavailable("locked", Trouble.LOCKED), "store_failed"),
        (ValueError("s3cret"), "provider_error"),
    ],
)
@pytest.mark.parametrize("step", ["begin", "ask", "finish"])
async def test_a_step_that_fails(step: str, error: Exception, expected: str) -> None:
    """Where nothing can be kept nobody is sent anywhere; what is unexpected is logged by its name alone (S12)."""
    plan, listener = Plan(), Listener()
    plan.at[step] = raising(error)
    async with signing_in(plan, listener) as one:
        came = listener.arrive(("code", "x"), plan.state) if step == "finish" else None
    assert reason(one) == expected and (one.url == "") is (step != "finish")
    assert came is None or came.pages == ["failed"]
    assert "s3cret" not in str(one.failure) + "".join(plan.logged)


@pytest.mark.parametrize(
    ("place", "taken", "places"),
    [
        ((0, 0), (), [0]),
        ((4100, 0), (), [4100]),
        ((4100, 5000), (), [4100]),
        ((0, 4100), (), [4100]),
        ((0, 4100), (4100,), [4100, 0]),
    ],
)
async def test_where_it_listens(place: tuple[int, int], taken: tuple[int, ...], places: list[int]) -> None:
    """C101: at the port of the entry, else where it was registered, else at any; the address that is asked for is the
    one that is listened at."""
    plan, listener = Plan(*place), Listener(*taken)
    async with signing_in(plan, listener):
        assert plan.pending is not None and plan.pending.redirect_uri == listener.redirect_uri
        listener.arrive(("code", "x"), plan.state)
    assert [port for _, port in listener.places] == places


async def test_a_port_of_the_entry_that_is_taken() -> None:
    """C100: it is not changed for another one, and nobody is sent anywhere."""
    plan, listener = Plan(4100, 0), Listener(4100)
    async with signing_in(plan, listener) as one:
        pass
    assert reason(one) == "callback_unavailable" and plan.pending is None and len(listener.places) == 1
