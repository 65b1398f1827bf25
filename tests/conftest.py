"""What every test shares: the one backend mcphub runs on."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """mcphub runs on asyncio only; its byte streams are asyncio protocols."""
    return "asyncio"
