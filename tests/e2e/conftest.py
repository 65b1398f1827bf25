"""What the end-to-end tests share: one event loop a module, so that the tests of a module can share a daemon."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
