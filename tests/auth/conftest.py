"""What tests of tokens' life share: one world each, in which nothing rests for long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcphub.auth import credential
from tests.auth.worlds import World, made


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr("mcphub.auth.refresh.RESTS", (0.01, 0.02, 0.04))
    monkeypatch.setattr(credential, "WRITE_AGAIN", 0.05)
    async with made(tmp_path) as world:
        yield world
