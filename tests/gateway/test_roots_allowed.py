"""Which of an agent's roots a server is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcphub.gateway.roots_allowed import MAX_ROOTS, NONE, RootsAllowed, path_of


def kept(allowed: RootsAllowed, *uris: Any, workspace: str = "") -> list[Any]:
    """The URIs that are left."""
    answer = {"roots": [{"uri": uri, "name": "x"} for uri in uris]}
    found, refused = allowed.kept(json.dumps(answer).encode(), workspace)
    roots = json.loads(found)["roots"]
    assert refused == len(uris) - len(roots) and all(root["name"] == "x" for root in roots)
    return [root["uri"] for root in roots]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("in/deep", "in side", "out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "inner").symlink_to(tmp_path / "in" / "deep")
    return tmp_path


def test_inside_and_outside(home: Path) -> None:
    """K5.4: a directory that is allowed, and what is below it; not one whose name only begins as its does."""
    allowed = RootsAllowed([str(home / "in")])
    inside = [(home / "in").as_uri(), (home / "in" / "deep").as_uri(), f"file://localhost{home}/in/not-there"]
    assert kept(allowed, *inside, (home / "in side").as_uri(), home.as_uri(), "file:///") == inside


def test_links(home: Path) -> None:
    """Where a link leads counts, of the root and of what is allowed; the URI stays as it was."""
    inside = RootsAllowed([str(home / "in")])
    assert kept(inside, (home / "in" / "link").as_uri()) == []
    assert kept(inside, (home / "in" / "inner").as_uri()) == [(home / "in" / "inner").as_uri()]
    through = RootsAllowed([str(home / "in" / "link")])
    assert kept(through, (home / "out").as_uri()) == [(home / "out").as_uri()]


def test_the_workspace(home: Path) -> None:
    """The agent's own is allowed; nothing is where nothing was said, and a path that is not absolute says nothing."""
    root = (home / "out").as_uri()
    assert kept(RootsAllowed(()), root, workspace=str(home / "out")) == [root]
    assert kept(RootsAllowed(()), root) == [] and kept(RootsAllowed(["out"]), root) == []


def test_the_home_of_the_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is allowed where nothing else was said."""
    monkeypatch.setenv("HOME", str(home))
    assert kept(RootsAllowed(), (home / "out").as_uri(), "file:///etc") == [(home / "out").as_uri()]


@pytest.mark.parametrize(
    "uri",
    ["/tmp", "http://x/tmp", "file://other/tmp", "file:///tmp?x", "file:///tmp#x", "file:tmp", "file:///tmp%00",
     "file:///tmp/../etc", "file:///tmp/%2e%2e/etc", "", "file://[", "data:,x"],
)  # fmt: skip
def test_what_is_no_root(uri: str) -> None:
    """It names no directory of this machine, or goes upwards."""
    with pytest.raises(ValueError):
        path_of(uri)
    assert kept(RootsAllowed(["/"]), uri) == []


def test_a_path_is_decoded_once() -> None:
    """`%25` is a percent sign."""
    assert path_of("FILE:///a%20b/%25c") == "/a b/%c"


@pytest.mark.parametrize(
    "answer",
    [b"{}", b'{"roots":5}', b'{"roots":null}', b'{"roots":{}}', b'{"roots":' + b"[" * 3000 + b"]" * 3000 + b"}"],
)
def test_what_is_no_answer(answer: bytes) -> None:
    """It is none."""
    assert RootsAllowed(["/"]).kept(answer, "") == (NONE, 0)


def test_odd_roots_and_too_many() -> None:
    """One that cannot be read costs itself alone; more than any project has are not looked at."""
    found, refused = RootsAllowed(["/"]).kept(b'{"roots":[5,{"uri":5},{},{"uri":"file:///"}]}', "")
    assert (found, refused) == (b'{"roots":[{"uri":"file:///"}]}', 3)
    assert len(kept(RootsAllowed(["/"]), *["file:///"] * (MAX_ROOTS + 9))) == MAX_ROOTS
