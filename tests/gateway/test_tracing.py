"""A trace for a request that belongs to none."""

from __future__ import annotations

import msgspec

from mcphub.gateway.tracing import with_trace
from mcphub.protocol.envelope import NO_META, RequestMeta
from mcphub.protocol.trace_context import trace_of


def test_a_trace_of_its_own() -> None:
    """Each request has another one; what its agent said beside it stays."""
    for meta in (NO_META, RequestMeta(True, "2026-07-28", b"1", carried=b'"a/b":1', client="c")):
        one, other = with_trace(meta), with_trace(meta)
        carried = msgspec.json.decode(b"{" + one.carried + b"}")
        assert trace_of(carried.pop("traceparent")) == one.trace != other.trace
        assert carried == ({"a/b": 1} if meta.carried else {})
        assert msgspec.structs.replace(one, carried=meta.carried, trace="") == meta
