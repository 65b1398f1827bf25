"""The argument by which a server knows a call that it was sent before."""

from __future__ import annotations

import json

import pytest

from mcphub.gateway.idempotency import lacks, with_argument


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (b"{}", True),
        (b"{ }", True),
        (b'{"a":"k"}', True),
        (b'{"\\u006b":1}', False),
        (b' {"a": {"k": 1}} ', True),
        (b'{"k":null}', True),
        (b'{"k": "x"}', False),
        (b'{"k":""}', True),
        (b'{"\\u006b": "" }', True),
        (b'{"k":" "}', False),
        (b'{"k":0}', False),
        (b'{"k":"","k":"x"}', False),
        (b'{"k":nullx}', False),
        (b"[]", False),
        (b'{"a":' + b"[" * 5000, True),
        (b'{"k":' + b"[" * 5000, False),
    ],
)
def test_lacks(arguments: bytes, missing: bool) -> None:
    """What is null or an empty text is not given; what cannot be read is left to who reads it."""
    assert lacks(arguments, "k") is missing
    assert lacks(memoryview(arguments), "k") is missing


@pytest.mark.parametrize("arguments",
    [b"{}", b"{ \n}", b'{ "a":1.50}', b'{"a":1.50,"b":"\\u00e9"}', b'{"k":null,"b":[ 1 ]}', b'{"k":"","b":[ 1 ]}',
     b'{"\\u006b":null}'],
)
def test_with_argument(arguments: bytes) -> None:
    """It is added, or takes the place of null or an empty text; all others keep their bytes."""
    found = with_argument(memoryview(arguments), "k", 'a"b')
    assert json.loads(found) == {**json.loads(arguments), "k": 'a"b'}
    for kept in (b"1.50", b"\\u00e9", b"[ 1 ]"):
        assert (kept in arguments) == (kept in found)
