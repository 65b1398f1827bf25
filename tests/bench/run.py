"""Owns the way in: `python tests/bench/run.py` from any folder. It must not hold anything else; `command` does.

The interpreter must be the one of the environment that mcphub is installed in.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # By name and not by an import statement: the package's own name depends on where the tests' root is taken to be.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    raise SystemExit(import_module("tests.bench.command").main())
