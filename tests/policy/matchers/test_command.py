"""Rules by command. The rows about whole servers are in tests/data/policy/servers.txt."""

from __future__ import annotations

import pytest

from mcphub.policy.candidate import Candidate
from mcphub.policy.matchers.command import CommandMatcher
from mcphub.policy.matchers.matcher import Refused, Useless
from mcphub.spec import Scope, Secret

MATCHER = CommandMatcher()


def denies(
    pattern: list[str], argv: tuple[str, ...], *, written: tuple[str, ...] = (), executed: tuple[str, ...] = ()
) -> bool:
    found, _ = MATCHER.read(pattern, deny=True)
    subject = MATCHER.subject(Candidate("x", Scope.USER, "program", argv, written, executed))
    assert subject is not None
    return MATCHER.denies(found, subject)


@pytest.mark.parametrize(
    ("pattern", "argv", "expected"),
    [
        (["rm", "-rf"], ("rm", "-rf"), True),
        (["rm", "-rf"], ("/usr/bin/rm", "-rf"), True),
        (["rm", "-rf"], ("/usr/bin/rm/", "-rf"), True),
        (["rm", "-rf"], ("../bin/rm", "-rf"), True),
        (["rm", "-rf"], ("Rm", "-rf"), True),
        (["rm", "-rf"], ("rm", "-RF"), False),
        (["rm", "-rf"], ("rm", "-rf", ""), False),
        (["rm", "-rf"], ("arm", "-rf"), False),
        (["/bin/rm"], ("rm",), False),
        (["/bin/rm"], ("/bin//rm",), True),
        (["${BIN}/rm", "-rf"], ("/opt/bin/rm", "-rf"), True),
        (["rm", "${ANY}"], ("/bin/rm", "-rf"), True),
        (["rm", "${ANY}"], ("/bin/rm",), False),
        (["rm", "${ANY:-x}y"], ("rm", "zzy"), True),
    ],
)
def test_denied(pattern: list[str], argv: tuple[str, ...], expected: bool) -> None:
    """A bare name is met under every path, arguments are equal, a variable stands for anything."""
    assert denies(pattern, argv) is expected


def test_denied_by_what_is_written_or_executed() -> None:
    """Neither a variable nor a link changes what a program is."""
    assert denies(["x", "1"], ("y", "1"), written=("x", "1"))
    assert denies(["rm"], ("/u/link",), executed=("/u/link", "/usr/bin/rm"))
    assert not denies(["rm"], ("/u/link", "-rf"), executed=("/usr/bin/rm",))


def test_secrets_among_arguments_are_compared() -> None:
    """An argument that came out of a variable is a string like any other."""
    assert denies(["srv", "--token", "abc"], ("srv", Secret("--token"), Secret("abc")))


@pytest.mark.parametrize("value", ["npx -y srv", None, {"command": "npx"}, [1], ["npx", None]])
def test_other_values_mean_nothing(value: object) -> None:
    """A command is a list of strings; a string would have to be split, and nobody knows how."""
    with pytest.raises(Refused, match="expected a list of strings"):
        MATCHER.read(value, deny=False)


@pytest.mark.parametrize("value", [[], [""]])
@pytest.mark.parametrize("deny", [True, False])
def test_no_program(value: list[str], deny: bool) -> None:
    """A list without a program matches nothing."""
    with pytest.raises(Useless, match="names no program"):
        MATCHER.read(value, deny)


def test_variables_allow_nothing() -> None:
    """A person chooses what a variable is: an entry with one cannot allow."""
    with pytest.raises(Useless, match="variables are not replaced"):
        MATCHER.read(["${HOME}/x"], deny=False)


def test_remote_servers_have_no_command() -> None:
    """A rule by command does not speak of a URL."""
    assert MATCHER.subject(Candidate("x", Scope.USER, "remote", urls=(Secret("https://x"),))) is None
