"""The verb why."""

from __future__ import annotations

import json
from pathlib import Path

from anyio.from_thread import BlockingPortal

from mcphub.cli.commands.why import place, text
from mcphub.status import Claim, OriginStatus, WhyInstance, WhyReport, WhyStep
from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub

FILE = OriginStatus(scope="user", path="/home/u/mcp.json", key="mcpServers.a", line=2)
REPORT = WhyReport(
    name="a",
    workspace="/w",
    configured=True,
    wanted=False,
    state="disabled (policy)",
    answer="a does not run: denied",
    steps=[
        WhyStep(step="configured", verdict="yes", origin=FILE, text="it is there"),
        WhyStep(step="policy", verdict="no", origin=None, text="denied"),
        WhyStep(step="connection", verdict="unknown", origin=None, text="nobody knows"),
    ],
    claims=[
        Claim(origin=FILE, standing="effective", text=""),
        Claim(origin={**FILE, "line": 0}, standing="shadowed", text=EVIL),
    ],
    suppresses=[FILE],
    next=["ask"],
    near=[],
    elsewhere=[],
    live=True,
)


def test_the_answer_first() -> None:
    """Then each step, who else has the name, and what would change it; nothing of it can move the cursor."""
    assert text(REPORT, "/home/u") == (
        "a does not run: denied\n"
        "\n"
        "  state       disabled (policy)\n"
        "  configured  ok   it is there\n"
        "  policy      NO   denied\n"
        "  connection  ?    nobody knows\n"
        "\n"
        "named by:\n"
        "  effective   user ~/mcp.json:2 mcpServers.a\n"
        "  shadowed    user ~/mcp.json mcpServers.a: a\\x1b]0;owned\\x07\\u202eb\\U000e0041\\x9b31m\n"
        "\n"
        "runs in place of:\n"
        "  user ~/mcp.json:2 mcpServers.a\n"
        "\n"
        "what would change it:\n"
        "  - ask\n"
    )
    assert place({**FILE, "key": ""}, "") == "user /home/u/mcp.json:2"


def test_the_daemon_is_asked(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """For the working directory, or the one that is named; a name that nobody has ends with 1."""
    out, err, status = place.run("why", "time")
    assert (out.splitlines()[0], err, status) == ("time runs", "", 0)
    Path(place.workspace, "sub").mkdir()
    report = json.loads(place.run("why", "time", "--json", "--workspace", "sub")[0])
    assert report["workspace"] == f"{place.workspace}/sub"
    out, _, status = place.run("why", "none")
    assert (out.splitlines()[0], status) == ("no server is named none here", 1)


def test_without_a_daemon_files_are_asked(home: Place) -> None:
    """Near misses too."""
    assert home.run("add", "github", "--", "x")[2] == 0
    out, err, status = home.run("why", "github")
    assert (err, status) == ("", 0)
    assert out.startswith("github may run; no daemon was asked\n(no daemon answers: this is what the files say)\n")
    assert "start the daemon: mcphub serve" in out
    out, _, status = home.run("why", "gitub")
    assert "did you mean github?" in out
    assert status == 1
    Path(home.root, "config", "mcphub", "mcp.json").write_text("{")
    assert "cannot be read and may name it" in home.run("why", "github")[0]


def test_what_agents_bring() -> None:
    """C023: each instance of the entry, whose it is, its state, and who uses it."""
    instances = [
        WhyInstance(brings=False, state="failed", reason="it lacks TOK\x1b", agents=[]),
        WhyInstance(brings=True, state="connected", reason="", agents=["claude (3)", "codex (4)"]),
    ]
    shown = text({**REPORT, "claims": [], "brought": ["TOK"], "instances": instances}, "")
    assert (
        "instances:\n"
        "  failed      of all others, used by nobody: it lacks TOK\\x1b\n"
        "  connected   of agents that brought values of their own, used by claude (3), codex (4)\n"
        "\n"
    ) in shown
