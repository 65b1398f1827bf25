"""Holds that each name by which a failure is told is written about, and that nothing is written about that is not."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcphub.channel import NOT_ACTED_ON
from mcphub.connection.faults import ADVICE, FaultKind
from mcphub.gateway.call import NOT_TAKEN
from mcphub.kinds import FAULTS, KINDS, TOLD, WARNINGS, Kind

PACKAGE = Path(__file__).parents[1] / "mcphub"
#: Where an error for an agent is made: the function or method, and which of its arguments is the kind.
MAKERS = {
    "error_data": 0,
    "told": 0,
    "with_warning": 1,
    "not_sent": 0,
    "_turn_down": 3,
    "_fail": 1,
}
#: Those that have the kind behind the agent, the id, what the request said, and for an error its code.
REFUSALS = {"result": 3, "error": 4}


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, kind) wherever a constant is given as one; of a choice both of it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        place = MAKERS.get(name)
        if name in REFUSALS and isinstance(of, ast.Attribute) and of.attr in ("refusals", "_refusals"):
            place = REFUSALS[name]
        elif name == "error" and isinstance(of, ast.Name) and of.id in ("call", "self", "request"):
            place = 0
        if place is not None and len(node.args) > place:
            for found in constants(node.args[place]):
                yield node.lineno, found


def constants(node: ast.AST) -> list[str]:
    if isinstance(node, ast.IfExp):
        return constants(node.body) + constants(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


@functools.cache
def trees() -> list[tuple[str, ast.Module]]:
    paths = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "kinds.py")
    return [(path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8"))) for path in paths]


def test_each_kind_that_is_used_is_written_about() -> None:
    """A kind is added here and nowhere else: agents, people and the pages about errors have one list."""
    made = [f"{path}:{line}: {kind}" for path, tree in trees() for line, kind in used(tree) if kind not in KINDS]
    assert made == []
    assert sum(1 for _, tree in trees() for _ in used(tree)) > 40  # the walk finds what it is made for


def test_each_kind_that_is_written_about_is_used() -> None:
    """What nobody can get any more has no page."""
    words = {
        node.value
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [name for name in KINDS if name not in words] == []


def test_faults_and_kinds_are_the_same() -> None:
    """A row of the status and an agent's error say the same name for the same thing, and agree on trying again."""
    assert FAULTS.keys() == set(FaultKind)
    for kind in FaultKind:
        assert FAULTS[kind].retryable is ADVICE[kind].transient, kind


def test_what_the_transports_say_has_names_for_agents() -> None:
    """Each reason for which a server has certainly not acted on a request is told under a registered name."""
    assert {NOT_TAKEN.get(kind, kind) for kind in NOT_ACTED_ON} <= KINDS.keys()


def test_no_name_has_two_meanings() -> None:
    """The parts of the list do not overlap."""
    assert len(KINDS) == len(TOLD) + len(FAULTS) + len(WARNINGS)
    tree = ast.parse((PACKAGE / "kinds.py").read_text("utf-8"))
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Kind"]
    assert len(made) == len(KINDS)
    assert all(name == kind.name for name, kind in KINDS.items())


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_what_is_said_of_each(kind: Kind) -> None:
    """Sentences for whoever reads them; and nothing that may have had effects is to be called again blindly."""
    assert kind.name.replace("_", "").isalpha() and kind.name.islower()
    assert kind.meaning.endswith((".", ")")) and kind.advice.endswith((".", ")")) and kind.example
    assert kind.help == f"docs/errors.md#{kind.name}"
    if kind.retryable and kind.name in TOLD:
        assert kind.effects != "unknown"
