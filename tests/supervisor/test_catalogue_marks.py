"""What tells that a saved catalogue may be another one now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcphub.spec import (
    AssertionSpec,
    HelperSpec,
    HttpSpec,
    InProcessSpec,
    OAuthSpec,
    Origin,
    Scope,
    Secret,
    ServerSpec,
    StdioSpec,
    TlsFiles,
    WsSpec,
)
from mcphub.supervisor import catalogue_marks as module

FAR = HttpSpec(Secret("https://x.example/mcp"), {}, "https://x.example/mcp")


def spec(transport: Any) -> ServerSpec:
    return ServerSpec("x", Origin(Scope.USER, "f", "k"), transport)


@pytest.mark.parametrize(
    ("transport", "kept"),
    [
        (StdioSpec("server"), True),
        (FAR, True),
        (WsSpec(Secret("wss://x.example"), {}, ""), True),
        (replace(FAR, oauth=OAuthSpec(mode="client_credentials", client_id="c")), True),
        (replace(FAR, oauth=OAuthSpec(mode="none")), True),
        (replace(FAR, oauth=OAuthSpec(mode="wif", assertion=AssertionSpec(env="T"))), False),
        (replace(FAR, oauth=OAuthSpec(mode="xaa")), False),
        (replace(FAR, helper=HelperSpec((Secret("print-token"),))), False),
        (InProcessSpec("x"), False),
    ],
)
def test_what_may_be_kept(transport: Any, kept: bool) -> None:
    """B59: not where a program, or somebody elsewhere, names the principal anew each time."""
    assert module.is_kept(spec(transport)) is kept


def test_variables_that_are_taken_over() -> None:
    """Those that the entry names; of all, the credentials, since others are different at each start. What the entry
    sets itself is in its key."""
    hub = {"PATH": "/bin", "API_TOKEN": "1", "PROFILE": "work", "INVOCATION_ID": "a"}
    others = [{**hub, name: "other"} for name in ("API_TOKEN", "PROFILE", "INVOCATION_ID")]

    def differing(**more: Any) -> list[bool]:
        one = spec(StdioSpec("server", **more))
        return [module.around(one, hub) != module.around(one, other) for other in others]

    assert differing() == [False, False, False]
    assert differing(inherit_env=("PROFILE", "GONE")) == [False, True, False]
    assert differing(inherit_env=True) == [True, False, False]
    assert differing(inherit_env=True, env={"API_TOKEN": Secret("own")}) == [False, False, False]


def test_certificates(tmp_path: Path) -> None:
    """Another certificate in the same file is another principal; one that is gone is none."""
    cert = tmp_path / "cert.pem"
    one = spec(replace(FAR, tls=TlsFiles(cert=str(cert))))
    marks = [module.around(one, {})]
    for text in ("a", "bb"):
        cert.write_text(text)
        marks.append(module.around(one, {}))
    assert len(set(marks)) == 3
    assert module.around(one, {}) == marks[-1]


def test_another_mcphub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release of mcphub may tell servers something else."""
    before = module.around(spec(FAR), {})
    monkeypatch.setattr(module, "__version__", "99")
    assert module.around(spec(FAR), {}) != before


def test_programs(tmp_path: Path) -> None:
    """A program that is elsewhere has no mark."""
    program = tmp_path / "server.py"
    program.write_text("1")
    one = spec(StdioSpec("/bin/sh", (Secret(str(program)),), cwd=str(tmp_path)))
    before = module.program(one, {})
    assert before and module.program(one, {}) == before
    program.write_text("22")
    assert module.program(one, {}) != before
    assert module.program(spec(FAR), {}) == ""
