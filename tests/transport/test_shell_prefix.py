"""A program in front of every server's command."""

from __future__ import annotations

import pytest

from mcphub.errors import TransportError
from mcphub.transport.shell_prefix import not_found, prefixed

ARGV = ["npx", "-y", "a b", "$(reboot)", ""]


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("", []),
        ("  \n", []),
        ("docker exec -i dev", ["docker", "exec", "-i", "dev"]),
        ("""'/opt/my tools/wrap' --name "x y" z\\ q""", ["/opt/my tools/wrap", "--name", "x y", "z q"]),
        ("sh -c 'exec \"$@\"' --", ["sh", "-c", 'exec "$@"', "--"]),
        ("echo $HOME; ls | wc #x", ["echo", "$HOME;", "ls", "|", "wc", "#x"]),
    ],
)
def test_words(prefix: str, words: list[str]) -> None:
    """The words are split as by a shell and nothing in them is expanded; the server's own stay as they are."""
    assert prefixed(prefix, ARGV) == [*words, *ARGV]


@pytest.mark.parametrize(
    ("prefix", "cause"),
    [
        ("docker 'exec", "no closing quotation"),
        ("docker\\", "no escaped character"),
        ("''", "it names no program"),
        ("./wrap", "an absolute path"),
    ],
)
def test_what_cannot_be_used(prefix: str, cause: str) -> None:
    """The message names the variable and where it stands."""
    with pytest.raises(TransportError, match=f"cannot use MCPHUB_SHELL_PREFIX: .*{cause}.*environment file") as raised:
        prefixed(prefix, ARGV)
    assert raised.value.kind == "config"


def test_a_program_that_is_not_there() -> None:
    """The variable is blamed, since no entry names this program."""
    error = not_found("wrap", "not found in the server's PATH, which is /bin")
    assert error.kind == "not_found"
    assert str(error) == (
        "cannot use MCPHUB_SHELL_PREFIX: its program 'wrap' cannot be started: not found in the server's PATH, which "
        "is /bin; correct it in the hub's environment file (mcphub env set MCPHUB_SHELL_PREFIX)"
    )
