"""Owns `python -m mcphub`, the same as the command `mcphub`.

It must not do anything else.
"""

from __future__ import annotations

import sys

from mcphub.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
