"""Owns the beginning of traces: a trace for a request whose agent named none, where settings say so.

It must not know what is asked, nor record anything: the trace goes to the server, to the log and to the journal like
one that an agent began.
"""

from __future__ import annotations

import os

import msgspec

from mcphub.protocol.envelope import RequestMeta
from mcphub.protocol.trace_context import begun


def with_trace(meta: RequestMeta) -> RequestMeta:
    """The same for a request that belongs to a trace of its own."""
    trace, span = os.urandom(16), os.urandom(8)
    if not any(trace) or not any(span):
        return meta
    member = begun(trace, span)
    carried = member + b"," + meta.carried if meta.carried else member
    return msgspec.structs.replace(meta, carried=carried, trace=trace.hex())
