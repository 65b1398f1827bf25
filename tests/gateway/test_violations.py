"""What a model is told of a violation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.gateway.careful_check import CarefulCheck
from mcphub.gateway.violations import MAX_CLAUSE, MAX_TOLD

KINDS = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "multipleOf": 2},
        "x": {"exclusiveMaximum": 5},
        "s": {"type": "string", "minLength": 2, "pattern": "^a"},
        "mode": {"enum": ["fast", 1, None]},
        "one": {"const": {"k": True}},
        "list": {"type": "array", "items": {"type": ["null", "number"]}, "uniqueItems": True, "maxItems": 2},
        "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "form": {"oneOf": [{"type": "null"}, {"type": "object", "required": ["x"]}]},
        "two": {"anyOf": [{"type": "object", "required": ["x"]}, {"type": "object", "required": ["y"]}]},
        "never": False,
        "no": {"not": {"type": "string"}},
        "deps": {"dependentRequired": {"a": ["b"]}, "minProperties": 1},
    },
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"n": "s3cret"}, "n must be integer, not string"),
        ({"n": -2}, "n must be at least 1"),
        ({"n": 3}, "n must be a multiple of 2"),
        ({"x": 5}, "x must be less than 5"),
        ({"s": "a"}, "s must have at least 2 characters"),
        ({"s": "s3cret"}, "s does not match the pattern ^a"),
        ({"mode": "s3cret"}, 'mode must be one of "fast", 1, null'),
        ({"one": "s3cret"}, 'one must be {"k":true}'),
        ({"list": [1, "s3cret"]}, "list[1] must be number or null, not string"),
        ({"list": [1, 1]}, "list must not hold an item twice"),
        ({"list": [1, 2, 3]}, "list must have at most 2 items"),
        ({"any": "s3cret"}, "any must be integer or null, not string"),
        ({"form": {}}, "form.x is missing"),
        ({"form": []}, "form must be object or null, not array"),
        ({"two": {}}, "two has none of the forms that the schema allows"),
        ({"never": "s3cret"}, "never is not allowed"),
        ({"no": "s3cret"}, "no is of a form that the schema excludes"),
        ({"deps": {"a": 1}}, "deps.b is missing"),
        ({"deps": {}}, "deps must have at least 1 members"),
    ],
)
def test_each_kind(arguments: dict[str, Any], told: str) -> None:
    """C151: the place, and what is expected there; never the value."""
    check = CarefulCheck(json.dumps(KINDS).encode(), "the arguments")
    assert check.wrong_with(json.dumps(arguments).encode()) == (told,)


def test_texts_are_cut_and_clean() -> None:
    """C151: names and limits as long or as odd as a peer likes; five things at most, each once."""
    closed = CarefulCheck(b'{"additionalProperties":false}', "the arguments")
    many = closed.wrong_with(json.dumps({f"{n}\x1b[2J" + "n" * 1000: 1 for n in range(100)}).encode())
    assert len(many) == MAX_TOLD and all(len(one) < 100 and "\x1b" not in one for one in many)
    values = CarefulCheck(json.dumps({"enum": ["v" * 1000] * 5 + list(range(50))}).encode(), "the arguments")
    [clause] = values.wrong_with(b"{}")
    assert len(clause) <= MAX_CLAUSE + 1
    deep: dict[str, Any] = {"type": "integer"}
    value: Any = "s3cret"
    for _ in range(20):
        deep, value = {"properties": {"n" * 50: deep}}, {"n" * 50: value}
    [clause] = CarefulCheck(json.dumps(deep).encode(), "the arguments").wrong_with(json.dumps(value).encode())
    assert clause.endswith("must be integer, not string") and len(clause) < MAX_CLAUSE
