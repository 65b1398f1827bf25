"""Every official client with every official server over HTTP, through the hub, feature by feature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.counterparts.grid import cells, table
from tests.counterparts.grid.cells import Cell
from tests.counterparts.grid.run import run

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "interoperability.md"


@pytest.fixture(scope="module")
async def grid() -> list[Cell]:
    with anyio.fail_after(55):
        return await run()


@pytest.mark.counterparts
async def test_the_grid(grid: list[Cell]) -> None:
    """B32, B38: no cell fails, those neither whose question has to be carried from one era to the other."""
    assert table.notes(grid, "fail") == []
    assert len(grid) == len(cells.pairs()) * len(cells.FEATURES) >= 330
    assert sum(cell.crossed for cell in grid) == 20


@pytest.mark.counterparts
async def test_the_page(grid: list[Cell]) -> None:
    """The documentation shows the grid as it is; `python -m tests.counterparts.grid --markdown` renews it."""
    page = PAGE.read_text("utf-8")
    assert table.table(grid) in page
    assert cells.counts(grid) in page


# -- a cell that did not happen is none that passed

ALL = {
    (client.key, server.key, feature): cells.expected(client, server, feature)
    for client, server in cells.pairs()
    for feature in cells.FEATURES
}


def verdicts(seen: dict[cells.Place, Any], heard: set[cells.Place], place: cells.Place) -> tuple[str, int]:
    """The verdict of one cell, and how many others failed."""
    judged = {(cell.client.key, cell.server.key, cell.feature): cell.verdict for cell in cells.judge(seen, heard)}
    return judged.pop(place), sum(verdict == "fail" for verdict in judged.values())


@pytest.mark.parametrize("feature", cells.FEATURES)
@pytest.mark.parametrize("server", ["py-legacy", "ts-both", "ts-modern"])
def test_what_makes_a_cell_fail(feature: str, server: str) -> None:
    """Each cell stands on what this client saw there, and on what this server saw of it."""
    place, heard = ("python-legacy", server, feature), cells.awaited()
    verdict, others = verdicts(ALL, heard, place)
    assert (verdict, others) == ("pass", 0)
    assert verdicts({p: got for p, got in ALL.items() if p != place}, heard, place) == ("fail", 0)
    assert verdicts(ALL | {place: {"error": {"code": -1, "message": "no"}}}, heard, place) == ("fail", 0)
    assert verdicts(ALL | {place: {"text": "something else"}}, heard, place) == ("fail", 0)
    if place in heard:
        assert verdicts(ALL, heard - {place}, place) == ("fail", 0)


def test_a_page_without_marks(tmp_path: Path) -> None:
    """It is left as it is."""
    page = tmp_path / "page.md"
    page.write_text("text", "utf-8")
    with pytest.raises(ValueError, match="are missing"):
        table.write("grid", page)
    page.write_text(f"a\n{table.BEGIN}\nold\n{table.END}\nb\n", "utf-8")
    table.write("new\n", page)
    assert page.read_text("utf-8") == f"a\n{table.BEGIN}\n\nnew\n\n{table.END}\nb\n"
