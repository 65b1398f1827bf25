"""The rounds of requests that need input first."""

from __future__ import annotations

import base64

import pytest
from msgspec.structs import replace

from mcphub.protocol import mrtr
from mcphub.protocol.mrtr import BadState, Round, State, read_input_required, unseal

KEY = b"k" * 32
OF = Round("w\0agent", "server", "tools/call", "tool", b'{"a":1,"b":[2]}')
NOW = 1_000_000.0


def seal(key: bytes, of: Round, state: str | None, now: float, nonce: bytes = bytes(mrtr.NONCE_BYTES)) -> str:
    return mrtr.seal(key, of, State(state), now, nonce)


@pytest.mark.parametrize("state", [None, "", "s", "\0", "漢" * 1000, '"\\'])
def test_a_seal_gives_the_state_back(state: str | None) -> None:
    """The server's own state comes back equal; that there was none does too, and twice as well as once."""
    sealed = seal(KEY, OF, state, NOW)
    assert sealed.isascii()
    for _ in range(2):
        assert unseal(KEY, OF, sealed, NOW + mrtr.LIFETIME - 1).server == state


def test_what_the_hub_keeps_is_hidden() -> None:
    """It comes back whole, and cannot be read on the way."""
    state = State(None, "a-call", 3, ("page-1",), 2)
    sealed = mrtr.seal(KEY, OF, state, NOW, b"n" * mrtr.NONCE_BYTES)
    assert unseal(KEY, OF, sealed, NOW) == state
    inside = base64.urlsafe_b64decode(sealed)
    assert b"a-call" not in inside and b"page" not in inside
    assert mrtr.seal(KEY, OF, state, NOW, b"m" * mrtr.NONCE_BYTES) != sealed


def test_arguments_are_the_same_in_another_order() -> None:
    """The order of members and the white space are no part of a request."""
    assert unseal(KEY, replace(OF, arguments=b' {"b": [2], "a": 1}'), seal(KEY, OF, "s", NOW), NOW).server == "s"
    none = replace(OF, arguments=b"")
    assert unseal(KEY, replace(OF, arguments=b"{}"), seal(KEY, none, "s", NOW), NOW).server == "s"


@pytest.mark.parametrize(
    "other",
    [
        replace(OF, principal="w\0another"),
        replace(OF, principal="w2\0agent"),
        replace(OF, server="server2"),
        replace(OF, method="prompts/get"),
        replace(OF, target="tool2"),
        replace(OF, arguments=b'{"a":1,"b":[3]}'),
        replace(OF, arguments=b'{"a":1}'),
        replace(OF, arguments=b'{"a":1.0,"b":[2]}'),
        replace(OF, arguments=b"[" * 5000),
        replace(OF, principal="w", server="agent\0server"),
        replace(OF, principal="w\0agent\0server", server="tools/call", method="tool", target=""),
    ],
)
def test_a_seal_of_another_request(other: Round) -> None:
    """Another agent, server, method, tool or argument is refused, and so is what only looks the same when joined."""
    with pytest.raises(BadState):
        unseal(KEY, other, seal(KEY, OF, "s", NOW), NOW)


def test_an_old_seal() -> None:
    """It is refused once its time is over."""
    with pytest.raises(BadState):
        unseal(KEY, OF, seal(KEY, OF, "s", NOW), NOW + mrtr.LIFETIME + 1)


def test_a_seal_of_another_hub() -> None:
    """Its key is another one."""
    with pytest.raises(BadState):
        unseal(b"x" * 32, OF, seal(KEY, OF, "s", NOW), NOW)


def test_every_change_of_a_seal() -> None:
    """Whichever character is changed, added or taken away, it is refused; nor is anything more said than that."""
    sealed = seal(KEY, OF, "state", NOW)
    changed = [sealed[:i] + ("A" if c != "A" else "B") + sealed[i + 1 :] for i, c in enumerate(sealed)]
    changed += [sealed[:i] + sealed[i + 1 :] for i in range(len(sealed))]
    added = ("!", "\n", " ", "=", "漢")
    changed += [sealed[:i] + extra + sealed[i:] for i in range(0, len(sealed), 7) for extra in added]
    for text in changed:
        if text != sealed:
            with pytest.raises(BadState) as caught:
                unseal(KEY, OF, text, NOW)
            assert "state\0" not in str(caught.value)


@pytest.mark.parametrize(
    "sealed",
    ["", "=", "A", "\ud800", "漢", "A" * 43, "A" * 44, base64.b64encode(b"\xff" * 99).decode(), "A" * 10_000_000],
)
def test_what_is_no_seal(sealed: str) -> None:
    """It is refused, however large."""
    with pytest.raises(BadState):
        unseal(KEY, OF, sealed, NOW)


def test_arguments_that_cannot_be_canonical() -> None:
    """Their bytes count."""
    for odd in (b'{"a":1e999}', b'{"a":' + b"9" * 5000 + b"}", b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}"):
        of = replace(OF, arguments=odd)
        assert unseal(KEY, of, seal(KEY, of, "s", NOW), NOW).server == "s"


def test_the_largest_state() -> None:
    """What may be carried can also come back."""
    state = "\x01" * mrtr.MAX_STATE
    assert unseal(KEY, OF, seal(KEY, OF, state, NOW), NOW).server == state


@pytest.mark.parametrize(
    "result",
    [
        b"5",
        b"[]",
        b"{}",
        b'{"inputRequests":5}',
        b'{"inputRequests":null,"requestState":null}',
        b'{"inputRequests":[]}',
        b'{"requestState":5}',
        b'{"requestState":"%b"}' % (b"x" * (mrtr.MAX_STATE + 1)),
        b'{"requestState":"\\ud800"}',
        b'{"inputRequests":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}",
    ],
)
def test_what_does_not_ask_as_the_spec_has_it(result: bytes) -> None:
    """ValueError says that it cannot be carried."""
    with pytest.raises(ValueError):
        read_input_required(result)


def test_what_asks() -> None:
    """Questions, a state, or both."""
    assert read_input_required(b'{"requestState":""}').requestState == ""
    found = read_input_required(b'{"inputRequests":{"a":{"method":"x"},"b":5}}')
    assert isinstance(found.inputRequests, dict) and list(found.inputRequests) == ["a", "b"]
