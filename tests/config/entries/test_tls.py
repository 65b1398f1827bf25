"""Tables for the certificates of an entry."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.spec import HttpSpec, Scope, TlsFiles
from tests.config.entries.written import parsed, problem, spec

HTTP = {"type": "http", "url": "https://h.example/mcp"}


def tls(value: Any, scope: Scope = Scope.USER) -> TlsFiles | None:
    transport = spec({**HTTP, "tls": value}, scope).transport
    assert isinstance(transport, HttpSpec)
    return transport.tls


@pytest.mark.parametrize(
    ("value", "files"),
    [
        ({}, None),
        ({"ca": ""}, None),
        ({"cert": "${HOME}/c.pem"}, TlsFiles("/home/u/c.pem", shown=(("cert", "${HOME}/c.pem"),))),
        ({"cert": "c.pem", "key": "../k.pem", "ca": "/a.pem"},
         TlsFiles("/home/u/.config/mcphub/c.pem", "/home/u/.config/k.pem", "/a.pem")),
    ],
)  # fmt: skip
def test_files(value: Any, files: TlsFiles | None) -> None:
    """Paths, from the file with the entry on; they make another server of it."""
    assert tls(value) == files
    assert parsed({**HTTP, "tls": value}).warnings == ()
    assert (spec({**HTTP, "tls": value}).key() == spec(HTTP).key()) == (files is None)


@pytest.mark.parametrize(
    ("value", "path", "cause"),
    [
        ("c.pem", "tls", "expected an object, found a string"),
        ({"cert": 1}, "tls.cert", "expected a string, found a number"),
        ({"certificate": "c"}, "tls.certificate", "unknown key; there are cert, key, ca"),
        ({"key": "/k"}, "tls.key", "with its certificate only"),
        ({"ca": "~/a.pem"}, "tls.ca", "write ${HOME}"),
        ({"ca": "a\0"}, "tls.ca", "NUL"),
        ({"cert": "${UNSET}"}, "tls.cert", "missing variable UNSET"),
    ],
)
def test_wrong_files(value: Any, path: str, cause: str) -> None:
    """Each is an error at its key."""
    said = problem({**HTTP, "tls": value})
    assert f"mcpServers.s.{path}" in said
    assert cause in said


def test_a_project_uses_no_certificate_of_yours() -> None:
    """A repository may say who vouches for its server, and not who you are."""
    assert tls({"ca": "ca.pem"}, Scope.PROJECT) == TlsFiles(ca="/w/ca.pem")
    assert "a project file may not use your certificates" in problem({**HTTP, "tls": {"cert": "c"}}, Scope.PROJECT)
