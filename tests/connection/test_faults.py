"""Kinds of fault and what a person should do about each."""

from __future__ import annotations

import pytest

from mcphub.connection.faults import ADVICE, Fault, FaultKind

#: A second try of the same start cannot help.
FINAL = {
    FaultKind.CONFIG,
    FaultKind.NOT_FOUND,
    FaultKind.CONTENT_LENGTH,
    FaultKind.REFUSED,
    FaultKind.PINNED_ERA,
    FaultKind.TLS,
    FaultKind.HTTP_STATUS,
    FaultKind.NEEDS_AUTH,
}


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_has_advice(kind: FaultKind) -> None:
    """A person is told what to do about each kind, with the server's name where a command is named."""
    fault = Fault(kind, "serve", "it broke")
    assert fault.transient == (kind not in FINAL)
    remedy = fault.remedy("my-{x}%s")
    assert remedy
    assert "{name}" not in remedy
    assert remedy == remedy.strip().rstrip(".")
    if "mcphub reconnect" in remedy or "mcphub logs" in remedy:
        assert "my-{x}%s`" in remedy


def test_no_kind_is_missing_from_the_table() -> None:
    """The table and the kinds are the same."""
    assert set(ADVICE) == set(FaultKind)
