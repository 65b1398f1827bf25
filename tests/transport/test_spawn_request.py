"""What is refused before the system is asked, and what is said afterwards."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from mcphub.errors import TransportError
from mcphub.transport.spawn_request import SpawnRequest


def request(
    argv: Sequence[str] = ("/bin/x",), env: Mapping[str, str] | None = None, cwd: str = "/", path: str = ""
) -> SpawnRequest:
    return SpawnRequest(argv, env or {}, cwd, (0, 1, 2), path)


def test_encoded() -> None:
    """Every byte of the file system's encoding arrives as it is, and the file defaults to the first argument."""
    assert request(["/bin/x", "\u4e16\udc80"], {"A": "b"}, "/w").encoded() == (
        b"/bin/x", [b"/bin/x", b"\xe4\xb8\x96\x80"], {b"A": b"b"}, b"/w"
    )  # fmt: skip
    assert request(path="/bin/y").encoded()[0] == b"/bin/y"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (request(["/bin/x", "tok-1\0"]), "argument 1 holds a NUL byte"),
        (request(["/bin/x", "tok-1\ud800"]), "argument 1 is not valid text"),
        (request(env={"A": "tok-1\0"}), "the value of variable 'A' holds a NUL byte"),
        (request(env={"A=B": "tok-1"}), "'A=B' is no name of a variable"),
        (request(env={"": "tok-1"}), "'' is no name of a variable"),
        (request(cwd="/tok\0"), "the working directory holds a NUL byte"),
        (request(path="/tok\0"), "the path holds a NUL byte"),
    ],
)
def test_what_no_system_could_execute(bad: SpawnRequest, words: str) -> None:
    """C025: the place is named, the value is not."""
    with pytest.raises(TransportError) as caught:
        bad.encoded()
    assert words in str(caught.value)
    assert caught.value.kind == "spawn"
    assert "tok-" not in str(caught.value)


def test_a_refusal_counts_bytes_and_shows_no_value() -> None:
    """C025: what the kernel finds too long is told by its size."""
    refusal = request(["/bin/x", "tok-1"], {"A": "tok-22"}).refusal("exec", errno.E2BIG)
    assert refusal.kind == "spawn"
    assert "are 20 bytes" in str(refusal)
    assert "tok-" not in str(refusal) + repr(request(["/bin/x", "tok-1"], {"A": "tok-22"}))


@pytest.mark.parametrize(
    ("stage", "number", "blamed"),
    [("exec", errno.EACCES, True), ("exec", errno.E2BIG, False), ("cwd", errno.ENOENT, False)],
)
def test_a_program_that_a_variable_names(stage: str, number: int, blamed: bool) -> None:
    """Where it cannot be executed the variable is named, and not where something else is at fault."""
    text = str(replace(request(), named_by="MCPHUB_SHELL_PREFIX").refusal(stage, number))
    assert text.startswith("cannot use MCPHUB_SHELL_PREFIX: cannot execute") is blamed
    assert ("MCPHUB_SHELL_PREFIX" in text) is blamed
