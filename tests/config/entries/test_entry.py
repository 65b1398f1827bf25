"""Tables for what becomes of an entry, whatever its transport."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import parse_entry
from mcphub.config.jsonc import parse
from mcphub.config.layer import Entry
from mcphub.spec import HttpSpec, InProcessSpec, Off, Origin, Problem, Scope, Secret, ServerSpec, StdioSpec
from tests.config.entries.written import CONTEXT, USER, parsed, problem, read, spec, stdio


def test_one_bad_entry_takes_no_other_down() -> None:
    """C005: each bad entry fails alone, by file, line and key path, and the good one runs."""
    layer = read(
        '{"mcpServers":{"ok":{"command":"x"},\n"bad1":{"command":42},\n"bad2":"npx foo",\n'
        '"bad3":{"type":"htp",\n"url":"https://h.example"},\n"bad4":{}}}'
    )
    outcomes = {entry.name: parse_entry(entry, layer.directory, CONTEXT).outcome for entry in layer.entries}
    assert isinstance(outcomes.pop("ok"), ServerSpec)
    messages = {one.name: one.message for one in (*layer.problems, *outcomes.values()) if isinstance(one, Problem)}
    assert messages == {
        "bad1": f"cannot use server bad1: {USER}:2 mcpServers.bad1.command: expected a string, found a number",
        "bad2": f"cannot use server bad2: {USER}:3 mcpServers.bad2: expected an object, found a string",
        "bad3": f"cannot use server bad3: {USER}:4 mcpServers.bad3.type: unknown type 'htp'; "
        "use 'stdio', 'http', 'sse' or 'ws'",
        "bad4": f"cannot use server bad4: {USER}:6 mcpServers.bad4.command: missing; give the program to run, "
        "or type and url for a remote server",
    }


@pytest.mark.parametrize("raw", [{"url": ""}, {"type": "http", "url": ""}, {"type": "stdio", "url": ""}])
def test_an_empty_url_is_not_configured(raw: dict[str, Any]) -> None:
    """An empty address is a blank form, not an error."""
    result = parsed(raw)
    assert result.outcome is None
    assert "not configured yet" in result.warnings[0]


def test_a_full_entry() -> None:
    """Every field lands where it belongs, expanded, with times in seconds."""
    found = spec(
        {
            "type": "stdio",
            "command": "${HOME}/bin/srv",
            "args": ["--dir", "${HOME}/d", "--token=${TOKEN}", "--mode=${MODE:-fast}"],
            "env": {"T": "${TOKEN}", "EMPTY": "${EMPTY}"},
            "cwd": "${HOME}/./work/",
            "enabled": True,
            "enabledTools": ["a", "b"],
            "disabledTools": ["b"],
            "startupTimeout": 1000,
            "timeout": 90000,
            "inheritEnv": ["SSH_AUTH_SOCK"],
            "stdio": "pipe",
            "era": "legacy",
        }
    )
    assert found == ServerSpec(
        "s",
        Origin(Scope.USER, USER, "mcpServers.s", 1),
        StdioSpec(
            "/home/u/bin/srv",
            (Secret("--dir"), Secret("/home/u/d"), Secret("--token=tok-5"), Secret("--mode=fast")),
            {"T": Secret("tok-5"), "EMPTY": Secret("")},
            ("${HOME}/bin/srv", "--dir", "${HOME}/d", "--token=${TOKEN}", "--mode=***"),
            "/home/u/work",
            ("SSH_AUTH_SOCK",),
            "pipe",
            shown_cwd="${HOME}/./work/",
        ),
        startup_timeout=1.0,
        call_timeout=90.0,
        enabled_tools=("a", "b"),
        disabled_tools=("b",),
        era="legacy",
    )
    assert "tok-5" not in repr(found)


def test_defaults() -> None:
    """What is not given comes from the settings, and a person's server has no workspace."""
    found = spec({"command": "x"}, context=Context(startup_timeout=7, call_timeout=8))
    assert (found.startup_timeout, found.call_timeout, found.enabled_tools, found.workspace) == (7, 8, None, "")
    assert found.transport == StdioSpec("x", shown=("x",))


def test_project_entries() -> None:
    """A project's servers belong to its directory, run there, and may refer to it; their text is shown as it is."""
    found = spec({"command": "${workspaceFolder}/srv", "args": ["--k=v", "${workspaceFolder}"]}, Scope.PROJECT)
    assert found.workspace == "/w"
    assert found.transport == StdioSpec(
        "/w/srv",
        (Secret("--k=v"), Secret("/w")),
        shown=("${workspaceFolder}/srv", "--k=v", "${workspaceFolder}"),
        cwd="/w",
    )
    assert stdio({"command": "x", "cwd": "../sub/."}, Scope.PROJECT).cwd == "/sub"
    assert stdio({"command": "x", "cwd": "/abs"}, Scope.PROJECT).cwd == "/abs"


@pytest.mark.parametrize(
    ("raw", "key", "part"),
    [
        ({"command": "x", "enabled": "no"}, "enabled", "expected true or false, found a string"),
        ({"command": "x", "disabled": 1}, "disabled", "expected true or false, found a number"),
        ({"command": "x", "enabledTools": "a"}, "enabledTools", "expected a list of strings"),
        ({"command": "x", "disabledTools": [1]}, "disabledTools[0]", "expected a string"),
        ({"command": "x", "era": "old"}, "era", "expected 'legacy' or 'modern'"),
    ],
)
def test_wrong_common_fields_are_named(raw: dict[str, Any], key: str, part: str) -> None:
    """A field of the wrong type or form is refused with its key path and what was expected."""
    message = problem(raw)
    assert message.startswith(f"cannot use server s: {USER}:1 mcpServers.s.{key}: ")
    assert part in message


@pytest.mark.parametrize("key", ["timeout", "startupTimeout"])
@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("30", "30 is below 1000, and the unit is milliseconds; for 30 seconds write 30000"),
        ("0", "0 is below 1000, and the unit is milliseconds"),
        ("-1", "-1 is below 1000"),
        ("999.9", "999.9 is below 1000"),
        ('"30"', "expected a number of milliseconds, found a string"),
        ('"30s"', "expected a number of milliseconds, found a string"),
        ("true", "expected a number of milliseconds, found true or false"),
        ("null", "expected a number of milliseconds, found null"),
        ("1e12", "1e+12 is above 2147483647 milliseconds"),
        ("2147483648", "2.14748e+09 is above 2147483647 milliseconds"),
    ],
)
def test_numbers_that_are_nearly_right(key: str, value: str, part: str) -> None:
    """C017: the unit is milliseconds, and a number that cannot be meant is refused with its field, never clamped."""
    layer = read(f'{{"mcpServers":{{"s":{{"command":"x","{key}":{value}}}}}}}')
    outcome = parse_entry(layer.entries[0], "", CONTEXT).outcome
    assert isinstance(outcome, Problem)
    assert f"mcpServers.s.{key}: {part}" in outcome.message


def test_how_long_a_person_may_take() -> None:
    """A quarter of an hour where the entry does not say; another time makes another instance of it."""
    plain, same = spec({"command": "x"}), spec({"command": "x", "inputTimeout": 900_000})
    assert plain.input_timeout == 900.0 and plain.key() == same.key()
    assert plain.key() != spec({"command": "x", "inputTimeout": 60_000}).key()


@pytest.mark.parametrize(("value", "seconds"), [(1000, 1.0), (1500.5, 1.5005), (2147483647, 2147483.647), (9e4, 90.0)])
def test_legal_numbers_are_kept(value: float, seconds: float) -> None:
    """C017: a legal value is taken as it is."""
    assert spec({"command": "x", "timeout": value}).call_timeout == seconds
    assert spec({"command": "x", "startupTimeout": value}).startup_timeout == seconds
    assert spec({"command": "x", "inputTimeout": value}).input_timeout == seconds


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"enabled": False}, "enabled"),
        ({"disabled": True}, "disabled"),
        ({"enabled": False, "disabled": False}, "enabled"),
    ],
)
def test_switched_off(raw: dict[str, Any], key: str) -> None:
    """An entry that is off says who did it, and its missing variables and files do not matter."""
    outcome = parsed({"command": "${U}", "cwd": "${U}/x", "envFile": "${U}", **raw}).outcome
    assert isinstance(outcome, Off)
    assert outcome.because == "person"
    assert outcome.detail == f"switched off by {USER}:1 mcpServers.s.{key}"


def test_the_embedded_kind_is_not_for_files() -> None:
    """Only the built-in source makes in-process servers; a file that says the same is a file without a command."""
    assert "mcpServers.s.command: missing" in problem({"inProcess": "welcome"})
    entry = Entry("mcphub", {"inProcess": "welcome"}, Origin(Scope.EMBEDDED, "(built in)", "mcpServers.mcphub"))
    outcome = parse_entry(entry, "", CONTEXT).outcome
    assert isinstance(outcome, ServerSpec)
    assert outcome.transport == InProcessSpec("welcome")


def test_order_and_empty_maps_are_no_change() -> None:
    """C016: other key order and `env: {}` instead of none give the same instance."""
    one = spec({"command": "x", "args": ["1"], "env": {}}).key()
    assert one == spec({"args": ["1"], "command": "x"}).key()
    assert (
        spec({"command": "x", "env": {"A": "1", "B": "2"}}).key()
        == spec({"env": {"B": "2", "A": "1"}, "command": "x"}).key()
    )
    assert one != spec({"command": "x", "args": ["2"]}).key()


def test_no_message_holds_a_value() -> None:
    """C025: problems and warnings of a file full of secrets say places and names only."""
    text = json.dumps(
        {
            "mcpServers": {
                "a": {"command": "x", "args": ["--k=tok-1", 5], "env": {"K": "tok-2"}},
                "b": {"command": "x", "env": {"K": "tok-3", "L": 4}},
                "c": {"type": "http", "url": "https://u:tok-4@h/?t=tok-5", "headers": {"A": "tok-6"}},
                "d": {"command": "x", "env": {"K": "tok-7${", "L": "${U}tok-8", "M": "${X:-tok-9${Y}}"}},
                "e": {"command": "tok-10 "},
            }
        }
    )
    layer = read(text)
    results = [parse_entry(entry, layer.directory, CONTEXT) for entry in layer.entries]
    said = [*(one.message for one in layer.problems), *layer.warnings]
    for result in results:
        if isinstance(result.outcome, Problem):
            said.append(result.outcome.message)
        else:
            said.append(repr(result.outcome))
        said += result.warnings
    assert "tok-" not in " ".join(said)
    assert parse(text.encode()).line(("mcpServers", "a")) == 1


def test_a_remote_server_that_is_switched_off() -> None:
    """What is switched off is checked, not expanded: a variable that is missing does not matter."""
    outcome = parsed({"type": "http", "url": "https://${NOPE}/", "enabled": False}).outcome
    assert isinstance(outcome, Off)
    assert isinstance(outcome.spec.transport, HttpSpec)


HERE = Context({"HOME": "/home/u"}, "/e", workspace="/w/sub", agent="7")


@pytest.mark.parametrize(
    ("scope", "sharing", "workspace", "agent"),
    [
        (Scope.USER, None, "", ""),
        (Scope.USER, "auto", "", ""),
        (Scope.USER, "shared", "", ""),
        (Scope.USER, "workspace", "/w/sub", ""),
        (Scope.USER, "agent", "/w/sub", "7"),
        # a project's is for its own directory, and each agent's for that
        (Scope.PROJECT, "auto", "/w", ""),
        (Scope.PROJECT, "shared", "/w", ""),
        (Scope.PROJECT, "workspace", "/w", ""),
        (Scope.PROJECT, "agent", "/w", "7"),
    ],
)
def test_who_shares_an_instance(scope: Scope, sharing: str | None, workspace: str, agent: str) -> None:
    """By itself all agents share one, those of a project's entry one a project; `sharing` says otherwise."""
    raw = {"command": "x"} if sharing is None else {"command": "x", "sharing": sharing}
    found = spec(raw, scope, HERE)
    assert (found.workspace, found.agent) == (workspace, agent)
    assert found.key().workspace == workspace


def test_each_agent_has_a_key_of_its_own() -> None:
    """C162: what is one agent's alone is another instance for the next one, and for no other reason than that."""
    raw = {"command": "x", "sharing": "agent"}
    keys = [spec(raw, Scope.USER, Context({}, "/e", workspace="/w", agent=agent)).key() for agent in ("1", "2", "1")]
    assert keys[0] == keys[2] != keys[1]


def test_a_project_is_not_shared_with_others() -> None:
    """Each project's entry is approved by itself."""
    assert "taken as 'auto'" in parsed({"command": "x", "sharing": "shared"}, Scope.PROJECT).warnings[0]


def test_always_on() -> None:
    """It contradicts whatever says when a server ends, and wins; of divided servers none is there without its user."""
    found = parsed({"command": "x", "alwaysOn": True, "lazy": True, "idleTimeout": 1500})
    assert isinstance(found.outcome, ServerSpec)
    assert (found.outcome.always_on, found.outcome.lazy, found.outcome.idle_timeout) == (True, False, 0.0)
    assert [text.count('no effect beside "alwaysOn": true') for text in found.warnings] == [1, 1]
    assert found.outcome.key() == spec({"command": "x"}).key()
    divided = parsed({"command": "x", "alwaysOn": True, "sharing": "agent"})
    assert isinstance(divided.outcome, ServerSpec) and not divided.outcome.always_on
    assert "is there for somebody" in divided.warnings[0]
    assert parsed({"command": "x", "alwaysOn": False, "lazy": True}).warnings == ()
    assert "expected true or false" in problem({"command": "x", "alwaysOn": 1})


@pytest.mark.parametrize(("value", "seconds"), [(True, None), (False, 0.0), (5000, 5.0)])
def test_health_check(value: Any, seconds: float | None) -> None:
    """False switches it off, a number is the silence that it takes; another one is another instance."""
    found = spec({"command": "x", "healthCheck": value})
    assert found.health_idle == seconds
    assert (found.key() == spec({"command": "x"}).key()) is (seconds is None)
    assert "the unit is milliseconds" in problem({"command": "x", "healthCheck": 30})


def test_when_it_runs() -> None:
    """Times are milliseconds in the file; a server that is neither lazy nor stopped has the key it always had."""
    found = spec({"command": "x", "lazy": True, "idleTimeout": 1500})
    assert (found.lazy, found.idle_timeout) == (True, 1.5)
    assert spec({"command": "x", "lazy": False}).key() == spec({"command": "x"}).key() != found.key()
    assert "expected true or false" in problem({"command": "x", "lazy": "yes"})
    assert "the unit is milliseconds" in problem({"command": "x", "idleTimeout": 30})
    assert "expected 'auto' or 'shared'" in problem({"command": "x", "sharing": "none"})
