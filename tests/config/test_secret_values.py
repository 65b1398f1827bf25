"""Which values of an entry are seen nowhere."""

from __future__ import annotations

import pytest

from mcphub.config.secret_values import own_values, secret_values
from mcphub.spec import HttpSpec, InProcessSpec, Secret, StdioSpec, TlsFiles


@pytest.mark.parametrize(
    ("arg", "shown", "inside"),
    [
        ("--api-key=tok-44444", "--api-key=***", {"tok-44444": "***"}),
        ("--root=/home/u/data", "--root=${HOME}/data", {}),
        ("/home/u/data", "${HOME}/data", {}),
        ("echo tok-55555 >&2", "echo ${K} >&2", {"tok-55555": "${K}"}),
        ("first1-second", "${A}-${B}", {"first1": "${A}", "second": "${B}"}),
        ("plain-word", "plain-word", {}),
        (
            "--url=https://u-name:passwd@h/x?key=tok-33333",
            "--url=***",
            dict.fromkeys(["u-name:passwd", "u-name", "passwd", "key=tok-33333", "tok-33333"], "***"),
        ),
    ],
)
def test_arguments(arg: str, shown: str, inside: dict[str, str]) -> None:
    """C025: an argument that is not shown as it is, is a secret by its place; so is what it carries, in text about its
    own server. A path is none."""
    transport = StdioSpec("x", (Secret(arg),), shown=("x", shown))
    assert secret_values(transport) == ({arg: shown} if arg != shown else {})
    assert own_values(transport) == inside


def test_the_environment() -> None:
    """C025: every value of `env` but those that mcphub gave, and short ones."""
    env = {"K": Secret("tok-11111"), "ROOT": Secret("/plugin"), "N": Secret("1"), "PATH": Secret("/opt/x:rel:/y")}
    found = secret_values(StdioSpec("x", env=env), {"ROOT": "/plugin"})
    assert found == dict.fromkeys(["tok-11111", "/opt/x:rel:/y", "/opt/x:/y"], "***")


def test_a_remote_server() -> None:
    """C025: headers, user and query of a URL; a server in the daemon has none."""
    found = secret_values(HttpSpec(Secret("https://h/mcp?k=tok-33333"), {"A": Secret("Bearer tok-22222")}))
    assert found == dict.fromkeys(["k=tok-33333", "tok-33333", "Bearer tok-22222", "tok-22222"], "***")
    assert secret_values(InProcessSpec("x")) == {}


def test_places_that_hold_a_variable() -> None:
    """C025: command, directory, host and path are told as the file has them."""
    stdio = StdioSpec("/x/tok-55555", shown=("/x/${K}",), cwd="/y/tok-55555", shown_cwd="/y/${K}")
    assert own_values(stdio) == {"/x/tok-55555": "/x/${K}", "/y/tok-55555": "/y/${K}", "tok-55555": "${K}"}
    assert own_values(StdioSpec("/x/program", shown=("/x/program",), cwd="/y/directory")) == {}
    http = HttpSpec(Secret("https://u@tok-55555.h/a/tok-55555?q=1"), shown="https://***@${K}.h/a/${K}?***")
    assert own_values(http) == {"tok-55555.h": "${K}.h", "/a/tok-55555": "/a/${K}", "tok-55555": "${K}"}
    tls = TlsFiles("/c/tok-55555", ca="/plain/authority", shown=(("cert", "/c/${K}"),))
    assert own_values(HttpSpec(Secret("https://h/"), shown="https://h/", tls=tls)) == {"/c/tok-55555": "/c/${K}"}
    assert own_values(HttpSpec(Secret("https://host.example/path"), shown="https://host.example/path")) == {}
