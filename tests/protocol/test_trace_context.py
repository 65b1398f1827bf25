"""What of a trace is carried, and what is dropped before anybody else must."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.jsonrpc import Raw
from mcphub.protocol.trace_context import MAX_BAGGAGE, MAX_STATE, begun, kept, trace_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def members(fields: dict[str, Any]) -> dict[str, Raw]:
    return {key: Raw(json.dumps(value).encode()) for key, value in fields.items()}


@pytest.mark.parametrize(
    ("parent", "trace"),
    [
        (PARENT, TRACE),
        (f"00-{TRACE}-{SPAN}-00", TRACE),
        (f"cc-{TRACE}-{SPAN}-01", TRACE),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", TRACE),
        (f"00-{TRACE}-{SPAN}-01-more", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"cc-{TRACE}-{SPAN}-01.more", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (PARENT.upper(), ""),
        (f" {PARENT}", ""),
        (f"{PARENT}\n", ""),
        (f"00-{TRACE}-{SPAN}", ""),
        (f"00-{TRACE[:-1]}-{SPAN}-01", ""),
        ("٠٠" + PARENT[2:], ""),
        ("", ""),
    ],
)
def test_a_traceparent(parent: str, trace: str) -> None:
    """Trace Context 3.2: of version 00 all is known, of a later one only how it begins."""
    assert trace_of(parent) == trace


@pytest.mark.parametrize(
    ("state", "stays"),
    [
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", True),
        ("tenant@system=1 , , b_-*/x=y z", True),
        ("a=" + "v" * 200, True),
        (",".join(f"k{n}=v" for n in range(32)), True),
        (",".join(f"k{n}=v" for n in range(33)), False),
        ("a=1,a=2", False),
        ("A=1", False),
        ("a=", False),
        ("a=1=2", False),
        ("a", False),
        ("a=é", False),
        ("", False),
        (",".join(f"k{n}={'v' * 40}" for n in range(31)), False),
        (5, False),
        (None, False),
    ],
)
def test_a_tracestate(state: Any, stays: bool) -> None:
    """Trace Context 3.3: what is not as it has it goes, and the trace itself stays."""
    fields = members({"traceparent": PARENT, "tracestate": state})
    assert kept(fields) == TRACE
    assert ("tracestate" in fields, "traceparent" in fields) == (stays, True)
    assert not isinstance(state, str) or len(state) <= MAX_STATE or not stays
    lonely = members({"traceparent": "00-1", "tracestate": state})
    assert (kept(lonely), lonely) == ("", {})


@pytest.mark.parametrize(
    ("baggage", "stays"),
    [
        ("userId=alice,serverNode=DF%2028,isProduction=false", True),
        ("key1=value1;property1;property2, key2 = value2, key3=value3; propertyKey=propertyValue", True),
        ("empty=", True),
        ("a=1,", False),
        ("a", False),
        ("a b=1", False),
        ("a=é", False),
        ('a="1"', False),
        ("a=" + "v" * (MAX_BAGGAGE - 2), True),
        ("a=" + "v" * MAX_BAGGAGE, False),
        ("", False),
        ({"a": 1}, False),
    ],
)
def test_baggage(baggage: Any, stays: bool) -> None:
    """W3C Baggage 3: it needs no trace beside it."""
    fields = members({"baggage": baggage, "x/y": 1})
    assert kept(fields) == ""
    assert ("baggage" in fields, "x/y" in fields) == (stays, True)


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage", "a/b"]), st.text() | st.integers()))
def test_anything(fields: dict[str, Any]) -> None:
    """Whatever an agent writes there, nothing is raised, and what is a vendor's stays."""
    found = members(fields)
    trace = kept(found)
    assert bool(trace) is ("traceparent" in found)
    assert ("a/b" in found) is ("a/b" in fields)


def test_a_trace_that_begins() -> None:
    """What is made here is what is accepted here."""
    member = begun(bytes.fromhex(TRACE), bytes.fromhex(SPAN))
    assert trace_of(msgspec.json.decode(b"{" + member + b"}")["traceparent"]) == TRACE
