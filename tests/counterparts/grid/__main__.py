"""Owns the command `python -m tests.counterparts.grid`: runs and prints the grid, exits with 1 if it fails.

It must not know how cells are run or judged.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import anyio

from tests.counterparts.grid import table
from tests.counterparts.grid.run import INSTALLED, node, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.counterparts.grid", description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the grid, between FILE's marks")
    parser.add_argument("--direct", action="store_true", help="without the hub: do the SDKs understand each other?")
    options = parser.parse_args()
    try:
        node()
    except RuntimeError as e:
        print(e, file=sys.stderr)
        return 2
    cells = anyio.run(lambda: run(direct=options.direct))
    text = table.markdown(cells, table.installed(INSTALLED))
    print(text)
    failed = table.notes(cells, "fail")
    print(*failed, sep="\n", file=sys.stderr)
    if options.markdown:
        table.write(text, options.markdown)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
