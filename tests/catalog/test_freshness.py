"""How long agents may keep a merged list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcphub.catalog.freshness import DEFAULT_MOST, merged_freshness
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.handshake import Facts
from mcphub.connection.machine import Connected, Failed, Pending, State
from mcphub.connection.view import View
from mcphub.protocol.caching import Freshness
from mcphub.protocol.versions import Era
from mcphub.spec import InProcessSpec, Origin, Scope, ServerSpec

TOOLS, PROMPTS, RESOURCES, TEMPLATES = "tools/list", "prompts/list", "resources/list", "resources/templates/list"
NOW = 1000.0
UP: State = Connected(0.0)
FAULT = Fault(FaultKind.LOST, "serve", "gone")
TELLS = {"tools": {"listChanged": True}}


def view(
    era: Era | None,
    capabilities: Mapping[str, Any] = TELLS,
    state: State = UP,
    deaf: bool = False,
    doubted: frozenset[str] = frozenset(),
    **fresh: Freshness,
) -> View:
    """One instance; `fresh` is what was said of its tools or resources. None = it has never been connected."""
    spec = ServerSpec("s", Origin(Scope.USER, "/u/mcp.json", "s"), InProcessSpec("s"))
    facts = Facts(era, "", {}, dict(capabilities), "") if era else None
    said = {f"{kind}/list": freshness for kind, freshness in fresh.items()}
    return View(spec.key(), spec, state, facts, (), 1, None, fresh=said, deaf=deaf, doubted=doubted)


def left(*views: View, method: str = TOOLS, now: float = NOW) -> tuple[float, bool]:
    """Seconds that are left, and whether it is public."""
    found = merged_freshness(views, method, now)
    return found.until - now, found.public


def test_the_strictest_part_counts() -> None:
    """B57, K2.3: of 5 s and 60 s, 5 s are left, and fewer later; any private part makes the list private."""
    five, sixty = Freshness(NOW + 5, True), Freshness(NOW + 60, True)
    views = view("modern", tools=five), view("modern", tools=sixty)
    assert left(*views) == (5, True)
    assert left(*views, now=NOW + 3) == (2, True)
    assert left(*views, now=NOW + 9)[0] <= 0
    assert left(*views, view("modern", tools=Freshness(NOW + 60))) == (5, False)


def test_nobody_keeps_a_list_for_long() -> None:
    """A server may say a day; another server can be added in the next minute."""
    assert left(view("modern", tools=Freshness(NOW + 86_400, True))) == (DEFAULT_MOST, True)
    assert merged_freshness([view("modern", tools=Freshness(NOW + 86_400))], TOOLS, NOW, 0.0).until == NOW


def test_a_modern_server_that_said_nothing() -> None:
    """Nothing is zero and private, whether it tells of changes or not."""
    silent: dict[str, Any] = {"tools": {}}
    for capabilities in (TELLS, silent):
        assert left(view("modern", capabilities))[0] <= 0
        assert not left(view("modern", capabilities))[1]


@pytest.mark.parametrize(
    ("capabilities", "seconds"),
    [
        (TELLS, DEFAULT_MOST),
        ({"tools": {"listChanged": False}}, -NOW),
        ({"tools": {"listChanged": "yes"}}, -NOW),
        ({"tools": {}}, -NOW),
        ({"tools": None}, -NOW),
    ],
)
def test_a_legacy_server(capabilities: Mapping[str, Any], seconds: float) -> None:
    """It has no word for it: where it tells of changes the hub's own limit counts, else nothing; always private."""
    assert left(view("legacy", capabilities)) == (seconds, False)
    assert left(view("legacy", capabilities, deaf=True)) == (-NOW, False)


@pytest.mark.parametrize("state", [Pending(1, 5.0, FAULT), Failed(FAULT, 1)])
def test_a_server_that_is_away(state: State) -> None:
    """B57: its old list is there, and not to be kept; who may have it has not changed."""
    assert left(view("modern", state=state, tools=Freshness(NOW + 60, True))) == (-NOW, True)
    assert left(view("legacy", state=state)) == (-NOW, False)
    assert left(view(None, state=state)) == (-NOW, False)


def test_a_list_in_doubt() -> None:
    """One that has changed, or could not be listed again, is not to be kept, whatever was said of it before; others of
    the same server are."""
    doubted = frozenset([TOOLS])
    assert left(view("modern", tools=Freshness(NOW + 60, True), doubted=doubted)) == (-NOW, True)
    assert left(view("legacy", doubted=doubted)) == (-NOW, False)
    both = view("modern", {"tools": {}, "resources": {}}, doubted=doubted, resources=Freshness(NOW + 7))
    assert left(both, method=RESOURCES) == (7, False)


def test_a_server_without_such_a_list() -> None:
    """It is no part of it; a list without parts is private, and kept as long as any."""
    public = view("modern", {"tools": {}, "resources": {}}, resources=Freshness(NOW + 7, True))
    assert left(public, view("legacy"), method=RESOURCES) == (7, True)
    assert left(public, view("legacy"), method=TEMPLATES)[1] is False
    assert left(public, view("legacy"), method=PROMPTS) == (DEFAULT_MOST, False)
    assert left() == (DEFAULT_MOST, False)
