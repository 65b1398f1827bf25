"""The table of how tokens are had without a person."""

from __future__ import annotations

import subprocess
import sys

from mcphub.auth.methods import METHODS
from mcphub.spec import OAUTH_MODES


def test_every_mode_has_its_method() -> None:
    """But those in which a person signs in, and nobody does."""
    assert set(METHODS) == set(OAUTH_MODES) - {"oauth", "none"}


def test_what_it_costs() -> None:
    """Nothing that signs is imported with the table: most machines never need it."""
    script = "import sys, mcphub.auth.methods; print(*{'joserfc', 'cryptography', 'httpx2'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert found.stdout.strip() == ""
