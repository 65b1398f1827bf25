"""What scripts/generate_docs.py writes is what stands in docs/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_generated_pages_are_what_their_sources_say() -> None:
    """A changed route or option without a changed page is a failure, not a stale page."""
    command = [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
