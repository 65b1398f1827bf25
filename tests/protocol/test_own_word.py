"""Which members are mcphub's own word, however they are written, and that nothing else changes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol import own_word

OURS = own_word.DOMAIN + "error"
KEYS = st.sampled_from([OURS, "dev.mcphub/", "dev.mcphub", "Dev.mcphub/error", "x/dev.mcphub/error", "\u6f22", ""])
VALUES = st.recursive(
    st.integers() | st.sampled_from([None, OURS, "a\\/b\n"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """An object, and one of the ways to write it: any letter of the key may be an escape."""
    fields = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    data = json.dumps(fields, ensure_ascii=draw(st.booleans()))
    at = draw(st.integers(0, len(OURS) - 1))
    for escaped in draw(st.sampled_from([(), (f"\\u{ord(OURS[at]):04x}",), (f"\\u{ord(OURS[at]):04X}",)])):
        data = data.replace(OURS, OURS[:at] + escaped + OURS[at + 1 :])
    if draw(st.booleans()):
        data = data.replace("/", "\\/")
    return fields, data.encode()


@given(written())
def test_only_its_own_members_go(case: tuple[dict[str, Any], bytes]) -> None:
    """At the top alone; each is counted; values stay as they are, whatever they mention."""
    fields, data = case
    counters: Counter[str] = Counter()
    kept = {key: value for key, value in fields.items() if not key.startswith(own_word.DOMAIN)}
    assert json.loads(own_word.without(data, counters)) == kept
    assert counters[own_word.COUNTER] == len(fields) - len(kept)
    for member, change in (("_meta", own_word.without_in_meta), ("data", own_word.without_in_data)):
        inside = b'{"%b":%b,"b":[1.0, 2]}' % (member.encode(), data)
        assert json.loads(change(inside)) == {member: kept, "b": [1.0, 2]}
    assert own_word.without_in_meta(data) == data or own_word.may_claim(data)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"5",
        b'"dev.mcphub/error"',
        b'["dev.mcphub/error"]',
        b'{"a": "\\n"}',
        b'{"dev.mcphub/error":',
        b'{"a":' * 9000 + b"0" + b"}" * 9000,
    ],
)
def test_what_stays_as_it_is(raw: bytes) -> None:
    """What is no object, cannot be read, or has nothing in it that could be such a key."""
    assert own_word.without(raw) == own_word.without_in_meta(raw) == own_word.without_in_data(raw) == raw


def test_a_key_that_stands_twice() -> None:
    """A reader that takes the first of two finds none either."""
    raw = b'{"_meta":{"dev.mcphub\\/error":1},"_meta":{"a":1}}'
    assert own_word.without_in_meta(raw) == b'{"_meta":{"a":1}}'
