"""What policy is asked about a server."""

from __future__ import annotations

import pytest

from mcphub.policy.candidate import candidate_of
from mcphub.spec import Scope
from tests.policy.tables import server

ENV = {"H": "ok.example", "C": "rm", "T": "secret-token"}


def test_a_program() -> None:
    """The expanded words count, and those of the file are kept beside them."""
    text = 'user x {"command":"${C}","args":["-t","${T}"],"env":{"PATH":"/p"}}'
    found = candidate_of(server(text, ENV), ("/bin/rm",))
    assert found is not None
    assert (found.kind, found.argv, found.written) == ("program", ("rm", "-t", "secret-token"), ("${C}", "-t", "${T}"))
    assert (found.executed, found.own_path, found.variables, found.own) == (("/bin/rm",), True, False, False)
    assert "secret-token" not in repr(found)


def test_a_remote_server() -> None:
    """Its expanded URL, and what stands behind a proxy."""
    text = 'managed x {"type":"http","url":"https://${H}/mcp","headers":{"X":"1"}}'
    found = candidate_of(server(text, ENV), behind=("https://inner.example/",))
    assert found is not None
    assert (found.kind, found.urls) == ("remote", ("https://ok.example/mcp", "https://inner.example/"))
    assert (found.scope, found.variables, found.own) == (Scope.MANAGED, True, True)
    assert "ok.example" not in repr(found)


def test_the_built_in_server() -> None:
    """It has a name alone."""
    found = candidate_of(server('embedded x {"inProcess":"x"}'))
    assert found is not None
    assert (found.kind, found.argv, found.urls, found.variables) == ("built in", (), (), False)


@pytest.mark.parametrize(
    ("entry", "variables"),
    [
        ('{"command":"a","args":["${C}"]}', True),
        ('{"command":"a","env":{"A":"${C}"}}', True),
        ('{"command":"a","cwd":"/${C}"}', True),
        ('{"command":"a","args":["$C"]}', False),
        ('{"type":"http","url":"https://a.example","headers":{"A":"${C}"}}', False),
    ],
)
def test_what_a_variable_decides(entry: str, variables: bool) -> None:
    """A variable counts where it chooses the code that runs or the place that is spoken to."""
    found = candidate_of(server(f"enterprise x {entry}", ENV))
    assert found is not None
    assert found.variables is variables


@pytest.mark.parametrize("entry", ['{"command":1}', '{"type":"http","url":""}', '{"command":"${MISSING}"}'])
def test_nothing_to_ask_about(entry: str) -> None:
    """What cannot run is no matter of policy."""
    assert candidate_of(server(f"user x {entry}")) is None
