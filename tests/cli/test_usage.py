"""What wrong usage is, and how it is told."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError

import pytest

from mcphub.cli.commands import COMMANDS
from mcphub.cli.main import build_parser, main
from mcphub.cli.usage import lacks_action, server_name

ACTIONS = {"one": "the first", "two": "the second"}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """No daemon, and no file of a person's."""
    for name in ("CONFIG_HOME", "STATE_HOME", "DATA_HOME", "CACHE_HOME", "RUNTIME_DIR"):
        monkeypatch.setenv(f"XDG_{name}", f"{tmp_path}/{name}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(str(tmp_path))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "a"], "give its URL, or -- and its command"),
        (["add", "a", "--json"], "give its URL, or -- and its command"),
        (["add", "../x", "--", "y"], 'cannot add server "../x": a name has 1 to 64'),
        (["add", "a\nb", "--", "y"], r'cannot add server "a\nb": a name has 1 to 64'),
        (["add", "prototype", "--", "y"], "this name is reserved"),
        (["add", "a", "--keep", "--", "x"], "--keep is for --scope dynamic"),
        (["add", "a", "--here", "--", "x"], "--here is for --scope dynamic"),
        (["add", "a", "-H", "A: b", "--", "x"], "--header is for a server at a URL"),
        (["add", "a", "-e", "A=b", "https://h.example/m"], "--env is for a program"),
        (["add", "a", "-e", "=b", "--", "x"], "--env takes NAME=VALUE or NAME"),
        (["add", "a", "-e", "A=b", "-e", "A=c", "--", "x"], "--env A is given twice"),
        (["add", "a", "-H", "b", "https://h.example/m"], "--header takes 'Name: value'"),
        (["add", "a", "-t", "http", "https://h.example/m", "x"], "takes one URL, and no arguments"),
        (["add", "a", "-t", "stdio", "https://h.example/m"], "a URL is no command"),
        (["add", "a", "-t", "none", "x"], "invalid choice"),
        (["add-json", "a", "{"], "cannot add server a: the entry: line 1, column 2"),
        (["add-json", "a", "[]"], "expected an object, found a list"),
        (["add-json", "a\x1b", "{}"], "a name has 1 to 64"),
        (["add-json", "a", "--keep", "{}"], "--keep is for --scope dynamic"),
        (["env", "set"], "cannot run env set: it takes a name"),
        (["env", "unset"], "cannot run env unset: it takes a name"),
        (["env", "list", "A"], "cannot run env list: it takes no name"),
        (["env", "unset", "--from-env", "A"], "--from-env is for set"),
        (["env", "list", "--refresh"], "--refresh is for path"),
        (["env", "set", "1A=tok-1"], "begins with no digit"),
        (["env", "set", "A\nB=tok-1"], r"cannot set 'A\nB'"),
        (["env", "set", "A", "B"], "cannot set several variables from one input"),
        (["env", "set", "--from-env", "A=tok-1"], "write --from-env NAME"),
        (["env", "put"], "invalid choice"),
        (["policy", "list", "x"], "cannot run policy list: it takes nothing"),
        (["policy", "explain"], "it takes one NAME or URL, or -- COMMAND"),
        (["policy", "explain", ""], "the name is empty"),
        (["policy", "explain", "--", ""], "the command is empty"),
        (["policy", "explain", "a", "--", "x"], "cannot run policy explain: it takes nothing"),
        (["policy", "test"], "cannot run policy test: it takes one FILE"),
        (["policy", "test", "a", "b"], "cannot run policy test: it takes one FILE"),
        (["policy", "validate", "--inventory", "x"], "--inventory is for test"),
        (["policy", "test", "--", "x"], "a command is for explain"),
        (["config", "show", "x"], "cannot run config show: it takes no file"),
        (["approve", "--tools"], "name the server"),
        (["approve", "--tools", "--all"], "name the server"),
        (["logs", "a", "-n", "-1"], "--lines must not be negative"),
        (["call", "t", "[]"], "cannot read the arguments of t"),
        (["serve", "--embed", ":x"], "expected [NAME=]MODULE[:OBJECT]"),
        (["connect", "--nope"], "unknown argument '--nope'"),
        (["connect", "--client"], "--client needs a value"),
        (["service", "status", "--on-demand"], "--on-demand is for install"),
        (["secret", "set"], "cannot run secret set: it takes one NAME"),
        (["vault", "status", "--stdin"], "--stdin is for unlock and rotate"),
        (["stop", "now"], "unrecognized arguments"),
        (["remove", "a", "-s", "managed"], "invalid choice"),
        *(
            ([verb, ""], "the name is empty")
            for verb in ("status", "why", "reconnect", "logs", "remove", "enable", "disable", "approve", "reject")
        ),
    ],
)
def test_wrong_usage_is_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever can be seen to be wrong by the words alone ends with 2, is told on stderr, and writes nothing."""
    assert main([*words]) == 2
    out, err = capsys.readouterr()
    assert (out, message in err, "tok-" in err) == ("", True, False), err
    assert os.listdir() == []


def test_with_json_it_is_told_on_stderr_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that wrote a wrong command line has no report to read."""
    assert main(["approve", "--tools", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("as in `mcphub approve --tools NAME`; `mcphub approve --help` says more\n")


@pytest.mark.parametrize("verb", [verb for verb in COMMANDS if build_parser(verb).get_default("actions")])
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_verb_alone_says_what_it_can_do(verb: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each of its actions."""
    assert main([verb, *words]) == 2
    out, err = capsys.readouterr()
    first, *lines, last = err.splitlines()
    assert (out, first) == ("", f"mcphub: {verb} needs to be told what to do:")
    actions = build_parser(verb).get_default("actions")
    assert [line.split(maxsplit=1) for line in lines] == [[name, text] for name, text in actions.items()]
    assert last == f"mcphub: `mcphub {verb} --help` says more"


@pytest.mark.parametrize(
    ("words", "lacks"),
    [([], True), (["--json"], True), (["one"], False), (["one", "--json"], False), (["-h"], False), (["x"], False)],
)
def test_when_an_action_is_lacking(words: list[str], lacks: bool) -> None:
    """A wrong one is another fault, and help is no fault."""
    assert lacks_action(words, ACTIONS) is lacks
    assert lacks_action(words, {}) is False


def test_a_name_that_is_none() -> None:
    """Any other name may be looked for."""
    assert server_name("a\nb") == "a\nb"
    with pytest.raises(ArgumentTypeError):
        server_name("")
