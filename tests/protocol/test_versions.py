"""Which version is spoken with whom."""

from __future__ import annotations

import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from mcphub.protocol import versions


def test_the_known_versions_are_the_official_ones() -> None:
    """Nothing was forgotten, and the newest comes first."""
    assert sorted(versions.ALL) == sorted(KNOWN_PROTOCOL_VERSIONS)
    assert list(versions.ALL) == sorted(versions.ALL, reverse=True)
    assert versions.ALL[0] == versions.LATEST_MODERN
    assert versions.BATCH_VERSION in versions.LEGACY


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(v, v) for v in versions.LEGACY]
    + [(odd, "2025-11-25") for odd in ("2026-07-28", "1900-01-01", "", "2025-11-25 ", "\u0662\u0660")],
)
def test_the_answer_to_initialize(asked: str, answer: str) -> None:
    """A legacy version is answered with itself; one without a handshake, or unknown, with the newest that has one."""
    assert versions.answer_to_initialize(asked) == answer


@pytest.mark.parametrize(
    ("supported", "version"),
    [
        (["2026-07-28"], "2026-07-28"),
        (["2099-01-01", "2026-07-28", "2025-11-25"], "2026-07-28"),
        (["2025-11-25"], None),
        (["2099-01-01"], None),
        ([], None),
    ],
)
def test_a_shared_modern_version(supported: list[str], version: str | None) -> None:
    """Only what both sides speak is chosen."""
    assert versions.choose_modern(supported) == version
