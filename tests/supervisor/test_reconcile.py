"""What is wanted against what runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.spec import Broken, InProcessSpec, InstanceKey, Off, Origin, Problem, Scope, ServerSpec, Want
from mcphub.supervisor.reconcile import Plan, reconcile

ORIGIN = Origin(Scope.USER, "/u/mcp.json", "x")
SPEC = ServerSpec("x", ORIGIN, InProcessSpec("x"))
WANT, OFF, BROKEN = Want(SPEC), Off(SPEC, "person", ""), Broken(Problem("x", ORIGIN, "wrong"))


def key(name: str) -> InstanceKey:
    return InstanceKey(name[0], name[1:])


@pytest.mark.parametrize(
    ("desired", "running", "start", "stop"),
    [
        ({}, [], "", ""),
        ({"b": WANT, "a": WANT}, [], "b a", ""),
        ({"b": WANT, "a": WANT}, ["a", "b"], "", ""),
        ({"a": OFF, "b": BROKEN}, [], "", ""),
        ({"a": OFF, "b": BROKEN}, ["b", "a"], "", "a b"),
        ({}, ["c", "a"], "", "a c"),
        # C016, C082: a changed spec is another instance; the others go on
        ({"a2": WANT, "b1": WANT}, ["a1", "b1"], "a2", "a1"),
    ],
)
def test_plans(desired: dict[str, Want | Off | Broken], running: list[str], start: str, stop: str) -> None:
    """C016: what is wanted and does not run is started, what runs and is not wanted is stopped, the rest is left."""
    plan = reconcile({key(k): v for k, v in desired.items()}, [key(k) for k in running])
    assert plan == Plan(tuple(map(key, start.split())), tuple(map(key, stop.split())))


KEYS = st.builds(InstanceKey, st.sampled_from("abc"), st.sampled_from("12"), st.sampled_from(["", "/w"]))


@given(st.dictionaries(KEYS, st.sampled_from([WANT, OFF, BROKEN])), st.sets(KEYS))
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(
    desired: dict[InstanceKey, Want | Off | Broken], running: set[InstanceKey]
) -> None:
    """Whatever runs and whatever is wanted, after the plan exactly the wanted run, and the next plan is empty."""
    plan = reconcile(desired, running)
    after = (running - set(plan.stop)) | set(plan.start)
    assert after == {k for k, wish in desired.items() if wish is WANT}
    assert not set(plan.start) & running
    assert set(plan.stop) <= running
    assert reconcile(desired, after) == Plan((), ())
