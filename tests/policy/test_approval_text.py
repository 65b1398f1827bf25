"""How an entry is shown before it is approved, and what differs from what was."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.policy.approval_text import ALSO, HIDDEN, difference, references, refers_to_secret, shown_entry
from mcphub.store.approvals import Approved


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({"command": "a", "args": ["b", "-c"]}, ['"a"', '"b"', '"-c"']),
        ({"args": ["--token=hunter2", "--t=${T}", "https://u:hunter2@h/p?hunter2"]}, ['"--token=***"', '"--t=${T}"']),
        ({"env": {"A": "hunter2", "B": "${B}", "C": "x${C}hunter2"}}, ['"A": "***"', '"B": "${B}"', '"C": "***"']),
        ({"headers": {"X": "hunter2", "Y": "${secret:y}"}}, ['"X": "***"', '"Y": "${secret:y}"']),
        (
            {"oauth": {"clientSecret": "hunter2", "privateKey": "hunter2", "issuer": "https://i/", "xaa": True}},
            ['"xaa": true', '"issuer": "https://i/"'],
        ),
        ({"url": "https://u:hunter2@h/p?k=hunter2#f"}, ['"url": "https://***@h/p?***"']),
        ({"apiKey": "x", "MY_TOKEN": "hunter2", "timeout": 5}, ['"MY_TOKEN": "***"', '"timeout": 5']),
        ({"nested": [{"env": {"A": "hunter2", "n": 5}}]}, ['"A": "***"']),
    ],
)
def test_what_is_kept_of_an_entry(raw: dict[str, Any], shown: list[str]) -> None:
    """C133: what a person approved can be shown again, and no value that may be a secret is kept for it."""
    text = shown_entry(raw)
    assert "hunter2" not in text
    assert [part for part in shown if part not in text] == []


def test_what_an_entry_reads() -> None:
    """C025: the names of variables and secrets that are looked up for it: not what stands in a field that is not
    expanded, what is no reference, and what the entry gets without asking the environment."""
    raw = {
        "command": "${workspaceFolder}/bin/${P}", "args": ["${A}", "x${B:-${D}}", "$N ${} $${E} ${F%.*} ${G:-g} ${H"],
        "env": {"${K}": "${secret:k1}"}, "envFile": "${workspaceFolder}/.env", "cwd": "${C}",
        "url": "${U}", "description": "${X}", "headers": {"A": "${Y}"}, "more": [{"x": "${Z}"}], "n": 1,
    }  # fmt: skip
    assert references(raw, remote=False) == ("A", "C", "G", "P", "secret:k1")
    raw = {"url": "https://${HOST}/${API_KEY}", "headers": {"A": "${MY_TOKEN}${ID}"}, "headersHelper": "h ${W}"}
    assert references({**raw, "args": ["${A}"], "tls": {"ca": "${CA}"}}, remote=True) == ("CA", "HOST", "ID", "W")


@pytest.mark.parametrize(
    ("text", "secret"),
    [("${A}", False), ("x", False), ("${secret:a}", True), ("--t=${GITHUB_TOKEN}", True), ("${API_KEY:-x}", True)],
)
def test_a_text_with_a_secret(text: str, secret: bool) -> None:
    """C133: a secret is known by its form or its name."""
    assert refers_to_secret(text) is secret


OLD = Approved("d1", ("echo", "hi"), "/w", ("A",), shown_entry({"command": "echo", "args": ["hi"], "env": {"A": "1"}}))


def test_what_differs() -> None:
    """C133: old and new, line by line; variables that an environment file adds, and the directory, too."""
    new = shown_entry({"command": "sh", "args": ["hi"], "env": {"A": "1"}})
    assert difference(OLD, Approved("d2", ("sh", "hi"), "/w", ("A", "B"), new)) == (
        "    ],",
        '-   "command": "echo",',
        '+   "command": "sh",',
        '    "env": {',
        "...",
        "  with A",
        "+ with B",
        f"? {ALSO}",
    )
    assert "+ in /v" in difference(OLD, Approved("d2", OLD.command, "/v", ("A",), OLD.entry))


@pytest.mark.parametrize(
    ("raw", "also"),
    [
        ({"command": "sh", "args": ["--require=./ok.js"]}, True),
        ({"command": "sh", "env": {"URL": "https://evil/"}}, True),
        ({"command": "${PROG}"}, True),
        ({"command": "sh", "args": ["x"]}, False),
    ],
)
def test_a_visible_change_does_not_hide_another(raw: dict[str, object], also: bool) -> None:
    """C133: beside a change that is shown, one that is not may stand; the person is told to look."""
    lines = difference(OLD, Approved("d2", ("sh",), "/w", (), shown_entry(raw)))
    assert (lines[-1] == f"? {ALSO}") is also


def test_what_differs_in_what_is_not_shown() -> None:
    """C133: a change of a value that nobody may see is still said to be one."""
    assert difference(OLD, Approved("d2", OLD.command, "/w", ("A",), OLD.entry)) == (f"+ {HIDDEN}",)


def test_what_was_approved_before_entries_were_kept() -> None:
    """C133: then its command is what there is to compare with."""
    lines = difference(Approved("d0", ("echo", "hi"), "/w"), Approved("d1", OLD.command, "/w", (), OLD.entry))
    assert "- echo" in lines
    assert '+   "command": "echo",' in lines
