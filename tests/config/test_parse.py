"""Tables for what a file and an entry mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcphub.config.jsonc import parse
from mcphub.config.layer import Entry, Layer
from mcphub.config.parse import (
    Context,
    EnvFile,
    Parsed,
    env_file_path,
    masked,
    masked_url,
    parse_entry,
    parse_file,
    shown_name,
)
from mcphub.spec import HttpSpec, InProcessSpec, Off, Origin, Problem, Scope, Secret, ServerSpec, StdioSpec

USER = "/home/u/.config/mcphub/mcp.json"
PROJECT = "/w/.mcp.json"
ENV = {"HOME": "/home/u", "TOKEN": "tok-5", "EMPTY": ""}
CONTEXT = Context(ENV, "/home/u/.config/mcphub/environment")


def read(text: str | Mapping[str, Any], scope: Scope = Scope.USER) -> Layer:
    data = text if isinstance(text, str) else json.dumps(text)
    path, directory = (USER, "/home/u/.config/mcphub") if scope is Scope.USER else (PROJECT, "/w")
    return parse_file(data.encode(), scope=scope, path=path, directory=directory)


def parsed(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> Parsed:
    layer = read({"mcpServers": {"s": raw}}, scope)
    return parse_entry(layer.entries[0], layer.directory, context)


def spec(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> ServerSpec:
    outcome = parsed(raw, scope, context).outcome
    assert isinstance(outcome, ServerSpec), outcome
    return outcome


def stdio(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> StdioSpec:
    transport = spec(raw, scope, context).transport
    assert isinstance(transport, StdioSpec)
    return transport


def problem(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> str:
    outcome = parsed(raw, scope, context).outcome
    assert isinstance(outcome, Problem), outcome
    assert outcome.name == "s"
    assert outcome.origin.key == "mcpServers.s"
    return outcome.message


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


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", f"cannot use {USER}:1:2: expected a key"),
        (b"", f"cannot use {USER}:1:1: expected a value, found the end of the file"),
        (b"\xff", f"cannot use {USER}: not UTF-8 at byte 0"),
        (b'{"mcpServers":{"a":{"command":"x"},\n"a":{"command":"y"}}}', f"cannot use {USER}:2:1: duplicate key 'a'"),
        (b"\n[]", f"cannot use {USER}:2: expected an object at the top, found a list"),
        (b'{"mcpServers":[]}', f"cannot use {USER}:1 mcpServers: expected an object, found a list"),
        (b'{"mcpServers":null}', f"cannot use {USER}:1 mcpServers: expected an object, found null"),
        (b'{"servers":{"a":{"command":"x"}}}', f"cannot use {USER}:1 servers: this is VS Code's key; rename it"),
    ],
)
def test_a_bad_file_is_one_problem(data: bytes, message: str) -> None:
    """C003: a file that cannot be used gives no entry and one problem that says where and why."""
    layer = parse_file(data, scope=Scope.USER, path=USER, directory="/c")
    assert layer.entries == ()
    assert [one.name for one in layer.problems] == [""]
    assert layer.problems[0].message.startswith(message)
    assert layer.unreadable


def test_other_top_level_keys_are_warnings() -> None:
    """A key that is not ours is named, with a hint when it looks like a server; `$schema` is silent."""
    layer = read('{"$schema":"x","mcpServers":{"a":{"command":"x"}},\n"inputs":[],"b":{"command":"y"}}')
    assert [entry.name for entry in layer.entries] == ["a"]
    assert layer.problems == ()
    assert layer.warnings == (
        f"{USER}:2 inputs: this key is not used",
        f"{USER}:2 b: this key is not used; a server goes below 'mcpServers'",
    )


def test_servers_beside_ours_costs_nothing() -> None:
    """VS Code's key is a problem of the file, and the entries below the right key still count."""
    layer = read({"servers": {}, "mcpServers": {"a": {"command": "x"}}})
    assert [entry.name for entry in layer.entries] == ["a"]
    assert [one.name for one in layer.problems] == [""]
    assert not layer.unreadable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", '""'),
        (" ", '" "'),
        ("../../x", '"../../x"'),
        ("a\nb", '"a\\nb"'),
        ("a\u001b[2J", '"a\\u001b[2J"'),
        ("\u00e9", '"\\u00e9"'),
        ("e\u0301", '"e\\u0301"'),
        ("a b", '"a b"'),
        ("a.b", '"a.b"'),
        ("n" * 65, '"' + "n" * 48 + '..."'),
        ("n" * 300, '"' + "n" * 48 + '..."'),
        ("a\u202eb", '"a\\u202eb"'),
        ("__proto__", "__proto__"),
        ("constructor", "constructor"),
        ("workspace", "workspace"),
        ("Claude Preview", '"Claude Preview"'),
    ],
)
def test_odd_names_are_refused_and_escaped(name: str, shown: str) -> None:
    """C006: a name outside the grammar, or reserved, is refused alone and never printed raw."""
    layer = read({"mcpServers": {"ok": {"command": "x"}, name: {"command": "x"}}})
    assert [entry.name for entry in layer.entries] == ["ok"]
    (refused,) = layer.problems
    assert refused.name == shown == shown_name(name)
    assert refused.message.isascii()
    assert refused.message.isprintable()
    assert f"mcpServers.{shown}" in refused.message


def test_longest_name_and_case_twins() -> None:
    """C006: 64 characters are a name; twins that differ in case alone both work and are pointed out."""
    layer = read({"mcpServers": {"n" * 64: {"command": "x"}, "A": {"command": "x"}, "a": {"command": "y"}}})
    assert [entry.name for entry in layer.entries] == ["n" * 64, "A", "a"]
    assert layer.warnings == (f"{USER}:1 mcpServers.a: differs from 'A' in upper and lower case only",)


@pytest.mark.parametrize(
    ("raw", "key", "part"),
    [
        ({"url": "https://h.example/mcp"}, "type", 'url without type; add "type": "http"'),
        ({"command": "x", "url": "https://h.example"}, "url", "both command and url are set"),
        ({"type": "stdio", "url": "https://h.example"}, "url", "type 'stdio' is a program, which has no url"),
        ({"type": "stdio", "command": "x", "url": "https://h.example"}, "url", "both command and url"),
        ({"type": "http", "command": "x"}, "command", "type 'http' is a remote server, which has no command"),
        ({"type": "http", "command": "x", "url": "https://h"}, "command", "which has no command"),
        ({"type": "http"}, "url", "missing; a server of type 'http' needs it"),
        ({"type": "http", "url": "h.example"}, "url", "expected an address that begins with http:// or https://"),
        ({"type": "ws", "url": "https://h"}, "url", "expected an address that begins with ws://"),
        ({"type": "stdio"}, "command", "missing"),
        ({"type": "sdk"}, "type", "works only inside the host"),
        ({"type": "HTTP", "url": "https://h"}, "type", "unknown type 'HTTP'"),
        ({"type": 1, "command": "x"}, "type", "expected a string, found a number"),
        ({"type": None, "command": "x"}, "type", "expected a string, found null"),
        ({"url": 5}, "url", "expected a string, found a number"),
        ({"type": "http", "url": None}, "url", "expected a string, found null"),
    ],
)
def test_transport_is_never_guessed(raw: dict[str, Any], key: str, part: str) -> None:
    """C011: a missing or contradictory transport is an error with a hint: a guess would decide whether code runs
    here."""
    message = problem(raw)
    assert message.startswith(f"cannot use server s: {USER}:1 mcpServers.s.{key}: ")
    assert part in message


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("sse", "SSE"), ("ws", "WebSocket")],
)
def test_remote_servers_are_refused_by_name(kind: str, shown: str) -> None:
    """C011: the known aliases are understood, and what this version cannot run is said; the address stays unsaid."""
    scheme = "wss" if kind == "ws" else "https"
    message = problem({"type": kind, "url": f"{scheme}://u:pw@h.example/mcp?token=tok-3", "headers": {"a": "tok-1"}})
    assert message == (
        f"cannot run remote server s: {shown} servers are not supported by this version ({USER}:1 mcpServers.s)"
    )


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
        ({"command": 1}, "command", "expected a string, found a number"),
        ({"command": None}, "command", "expected a string, found null"),
        ({"command": ["npx", "x"]}, "command", "found a list; put what follows the program into args"),
        ({"command": ""}, "command", "is empty"),
        ({"command": "  "}, "command", "is empty"),
        ({"command": "${EMPTY}"}, "command", "is empty after its variables were replaced"),
        ({"command": "a\0b"}, "command", "NUL"),
        ({"command": "x", "args": "-y x"}, "args", "expected a list of strings, found a string"),
        ({"command": "x", "args": ["-p", 80]}, "args[1]", "expected a string, found a number; put it in quotes"),
        ({"command": "x", "args": [None]}, "args[0]", "expected a string, found null"),
        ({"command": "x", "args": ["a\0"]}, "args[0]", "NUL"),
        ({"command": "x", "env": []}, "env", "expected an object, found a list"),
        ({"command": "x", "env": {"A": 1}}, "env.A", "expected a string, found a number; put it in quotes"),
        ({"command": "x", "env": {"A": True}}, "env.A", "expected a string, found true or false; put it in quotes"),
        ({"command": "x", "env": {"A": None}}, "env.A", "expected a string, found null"),
        ({"command": "x", "env": {"A=B": "1"}}, 'env."A=B"', "no variable can have this name"),
        ({"command": "x", "env": {"": "1"}}, 'env.""', "no variable can have this name"),
        ({"command": "x", "env": {"A": "\0"}}, "env.A", "NUL"),
        ({"command": "x", "cwd": "rel"}, "cwd", "expected an absolute path"),
        ({"command": "x", "cwd": "~/rel"}, "cwd", "~ is not replaced; write ${HOME}"),
        ({"command": "x", "cwd": 1}, "cwd", "expected a string"),
        ({"command": "x", "enabled": "no"}, "enabled", "expected true or false, found a string"),
        ({"command": "x", "disabled": 1}, "disabled", "expected true or false, found a number"),
        ({"command": "x", "enabledTools": "a"}, "enabledTools", "expected a list of strings"),
        ({"command": "x", "disabledTools": [1]}, "disabledTools[0]", "expected a string"),
        ({"command": "x", "inheritEnv": "yes"}, "inheritEnv", "expected true, false or a list of names"),
        ({"command": "x", "inheritEnv": [1]}, "inheritEnv[0]", "expected a string"),
        ({"command": "x", "stdio": "pty"}, "stdio", "expected 'socketpair' or 'pipe'"),
        ({"command": "x", "era": "old"}, "era", "expected 'legacy' or 'modern'"),
        ({"command": "x", "envFile": 1}, "envFile", "expected a string"),
        ({"command": "x", "envFile": "~/.env"}, "envFile", "~ is not replaced"),
    ],
)
def test_wrong_fields_are_named(raw: dict[str, Any], key: str, part: str) -> None:
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


def test_numbers_out_of_json_spoil_the_file() -> None:
    """C017: NaN is no JSON."""
    assert read('{"mcpServers":{"s":{"command":"x","timeout":NaN}}}').unreadable


@pytest.mark.parametrize(("value", "seconds"), [(1000, 1.0), (1500.5, 1.5005), (2147483647, 2147483.647), (9e4, 90.0)])
def test_legal_numbers_are_kept(value: float, seconds: float) -> None:
    """C017: a legal value is taken as it is."""
    assert spec({"command": "x", "timeout": value}).call_timeout == seconds
    assert spec({"command": "x", "startupTimeout": value}).startup_timeout == seconds


def test_missing_variables() -> None:
    """C020: the server fails by the names of its missing variables, each with its field, and is told where to set
    them."""
    message = problem({"command": "x", "args": ["${OTHER}"], "env": {"D": "${UNSET_D}/data", "E": "${UNSET_D}"}})
    assert message == (
        f"cannot use server s: {USER}:1 mcpServers.s.args[0]: missing variable OTHER; also missing: "
        f"UNSET_D ({USER}:1 mcpServers.s.env.D); set it in /home/u/.config/mcphub/environment, "
        "or write a default: ${OTHER:-...}"
    )
    assert "workspaceFolder} has a value in project files only" in problem(
        {"command": "x", "cwd": "${workspaceFolder}"}
    )


@pytest.mark.parametrize(
    "raw",
    [{"command": "${U}"}, {"command": "x", "args": ["${U}"]}, {"command": "x", "cwd": "${U}"},
     {"command": "x", "env": {"A": "${U}"}}, {"command": "x", "envFile": "${U}"}],
)  # fmt: skip
def test_every_field_is_expanded_or_fails(raw: dict[str, Any]) -> None:
    """C020: in no field does the literal reach a program."""
    assert "missing variable U" in problem(raw)


def test_secrets_are_refused() -> None:
    """The vault's form is understood and refused, not passed on."""
    message = problem({"command": "x", "env": {"A": "${secret:gh}"}})
    assert "mcpServers.s.env.A: ${secret:gh}: secrets are not supported by this version" in message


def test_unsupported_forms_are_passed_on_with_a_warning() -> None:
    """C021: a form outside the grammar stays as it is and is reported once for the entry."""
    result = parsed({"command": "sh", "args": ["-c", "echo $A $A ${B%.*}", "$A"]})
    assert isinstance(result.outcome, ServerSpec)
    assert [str(arg) for arg in result.outcome.transport.args] == ["-c", "echo $A $A ${B%.*}", "$A"]  # type: ignore[union-attr]
    assert result.warnings == (
        f"{USER}:1 mcpServers.s: $A is not a supported form and is passed on as it stands",
        f"{USER}:1 mcpServers.s: ${{B... is not a supported form and is passed on as it stands",
    )


def test_expansion_uses_the_hubs_environment() -> None:
    """C023: only what the caller gives as the hub's environment is seen, and the message names the file to set it
    in."""
    raw = {"command": "x", "env": {"T": "${GH_T}"}}
    assert "set it in /e/environment" in problem(raw, context=Context({}, "/e/environment"))
    assert stdio(raw, context=Context({"GH_T": "abc"})).env == {"T": "abc"}


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        (" npx", "begins with white space"),
        ("npx -y x", "holds white space and is not split; put what follows the program into args"),
        ("cmd", "looks like an entry for Windows"),
        ("C:\\Tools\\srv.exe", "looks like an entry for Windows"),
        ("npx.cmd", "looks like an entry for Windows"),
        ("np\u200bx", "holds an invisible character"),
        ("npx\u00a0", ""),
    ],
)
def test_command_lines_of_other_systems(command: str, warning: str) -> None:
    """C042: a command that is probably meant otherwise runs as it is, with a warning; args are never joined or
    changed."""
    if not warning:
        assert "ends in white space" in problem({"command": command})
        return
    result = parsed({"command": command, "args": ["/c", "a&calc", "%PATH%", "^x y"]})
    assert isinstance(result.outcome, ServerSpec)
    assert result.outcome.transport == StdioSpec(
        command,
        (Secret("/c"), Secret("a&calc"), Secret("%PATH%"), Secret("^x y")),
        shown=(command, "/c", "a&calc", "%PATH%", "^x y"),
    )
    assert [text for text in result.warnings if warning in text and "mcpServers.s.command: " in text]


@pytest.mark.parametrize("command", ["npx ", "npx\n", "/opt/my tools/srv\t"])
def test_trailing_white_space_is_refused(command: str) -> None:
    """C042: a program with a blank behind its name is never meant, and the message says so."""
    assert "mcpServers.s.command: ends in white space, and no program is called so; remove it" in problem(
        {"command": command}
    )


def test_a_path_with_spaces_is_a_path() -> None:
    """C042: a blank inside a path is part of the path, without a warning."""
    assert parsed({"command": "/opt/my tools/srv"}).warnings == ()


def test_invisible_characters_in_arguments_are_pointed_out() -> None:
    """What an editor does not show is named by place."""
    assert parsed({"command": "x", "args": ["a", "b\u2060"]}).warnings == (
        f"{USER}:1 mcpServers.s.args[1]: holds an invisible character",
    )


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV",
     "GIT_SSH_COMMAND", "OPENSSL_CONF", "PATH", "HTTPS_PROXY", "SSL_CERT_FILE"],
)  # fmt: skip
def test_loader_variables_from_a_project_are_blocked(name: str) -> None:
    """C044: a project cannot set what changes the code that runs, and is told that it is blocked; a person can."""
    raw = {"command": "node", "args": ["server.js"], "env": {"OK": "1", name: "x"}}
    message = problem(raw, Scope.PROJECT)
    assert f"{PROJECT}:1 mcpServers.s.env.{name}: blocked: a project file may not set {name}" in message
    assert stdio(raw).env[name] == "x"
    wrong_type = problem({"command": "node", "env": {name: 1}}, Scope.PROJECT)
    assert "blocked" not in wrong_type
    assert "expected a string" in wrong_type


def test_env_file() -> None:
    """The file that `envFile` names comes below `env`; its path is expanded and starts at the configuration file."""
    raw = {"command": "x", "envFile": "${NAME:-dev}.env", "env": {"B": "2"}}
    layer = read({"mcpServers": {"s": raw}})
    path = env_file_path(layer.entries[0], layer.directory, CONTEXT)
    assert path == "/home/u/.config/mcphub/dev.env"
    context = Context(ENV, env_files={path: EnvFile({"A": "${TOKEN}", "B": "1"}, ("line 3 is odd",))})
    result = parsed(raw, context=context)
    assert isinstance(result.outcome, ServerSpec)
    assert isinstance(result.outcome.transport, StdioSpec)
    assert result.outcome.transport.env == {"A": "${TOKEN}", "B": "2"}
    assert result.warnings == (f"{USER}:1 mcpServers.s.envFile: line 3 is odd",)


def test_env_file_that_cannot_be_used() -> None:
    """A file that cannot be read fails its server; one of a project may not bring loader variables either (C044)."""
    raw = {"command": "x", "envFile": ".env"}
    failing = Context(env_files={"/w/.env": EnvFile(error="cannot read /w/.env: it is a FIFO, not a regular file")})
    assert f"{PROJECT}:1 mcpServers.s.envFile: cannot read /w/.env: it is a FIFO" in problem(
        raw, Scope.PROJECT, failing
    )
    assert "No such file" in problem(raw, Scope.PROJECT)
    hostile = Context(env_files={"/w/.env": EnvFile({"NODE_OPTIONS": "x"})})
    assert "mcpServers.s.envFile: blocked" in problem(raw, Scope.PROJECT, hostile)


@pytest.mark.parametrize(
    "raw", [{}, {"envFile": 1}, {"envFile": "~/x"}, {"envFile": "${U}"}, {"envFile": ".env", "enabled": False}]
)
def test_env_file_that_is_not_read(raw: dict[str, Any]) -> None:
    """No path is asked for where there is none, where it is wrong, or where the server is off."""
    layer = read({"mcpServers": {"s": {"command": "x", **raw}}})
    assert env_file_path(layer.entries[0], layer.directory, CONTEXT) is None


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


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("lazy", "not used yet"),
        ("sharing", "not used yet"),
        ("limits", "not used yet"),
        ("headers", "not used by a server that is a program"),
        ("autoApprove", "unknown key, not used"),
        ("a\u001b", "unknown key, not used"),
    ],
)
def test_unused_keys_are_warnings(key: str, part: str) -> None:
    """A key that does nothing here is kept and named."""
    result = parsed({"command": "x", key: True})
    assert isinstance(result.outcome, ServerSpec)
    assert result.warnings == (f"{USER}:1 mcpServers.s.{shown_name(key)}: {part}",)


def test_the_embedded_kind_is_not_for_files() -> None:
    """Only the built-in source makes in-process servers; a file that says the same is a file without a command."""
    assert "mcpServers.s.command: missing" in problem({"inProcess": "welcome"})
    entry = Entry("mcphub", {"inProcess": "welcome"}, Origin(Scope.EMBEDDED, "(built in)", "mcpServers.mcphub"))
    outcome = parse_entry(entry, "", CONTEXT).outcome
    assert isinstance(outcome, ServerSpec)
    assert outcome.transport == InProcessSpec("welcome")


@pytest.mark.parametrize(
    ("arg", "shown"),
    [
        ("plain", "plain"),
        ("--flag", "--flag"),
        ("--api-key=tok-4", "--api-key=***"),
        ("-k=tok", "-k=***"),
        ("--api-key=${KEY}", "--api-key=${KEY}"),
        ("--api-key=${KEY:-tok}", "--api-key=***"),
        ("--empty=", "--empty="),
        ("https://u:pw@h.example/mcp?token=tok-3#x", "https://***@h.example/mcp?***"),
        ("https://h.example/mcp", "https://h.example/mcp"),
        ("postgres://me:pw@db/x", "postgres://***@db/x"),
    ],
)
def test_masking_is_by_position(arg: str, shown: str) -> None:
    """C025: what may hold a secret by its place is not shown, whatever it is called."""
    assert masked(arg) == shown


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


# -- remote servers


def http(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> HttpSpec:
    transport = spec({"type": "http", "url": "https://h.example/mcp", **raw}, scope, context).transport
    assert isinstance(transport, HttpSpec)
    return transport


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
def test_a_remote_server(kind: str) -> None:
    """C011: a server at a URL by each of its names; its common fields mean what they mean for a program."""
    raw = {
        "type": kind,
        "url": "https://h.example/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "a"},
        "timeout": 5000,
        "era": "legacy",
        "disabledTools": ["x"],
    }
    found = spec(raw)
    assert found.transport == HttpSpec(
        Secret("https://h.example/mcp"),
        {"Authorization": Secret("Bearer tok-5"), "X-Team": Secret("a")},
        "https://h.example/mcp",
    )
    assert (found.call_timeout, found.era, found.disabled_tools) == (5.0, "legacy", ("x",))
    assert parsed(raw).warnings == ()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.example/mcp", "https://h.example/mcp"),
        ("https://u:pw@h.example:8443/mcp?token=t#x", "https://***@h.example:8443/mcp?***"),
        ("https://${TOKEN}@h.example/${EMPTY}?k=${TOKEN}", "https://***@h.example/${EMPTY}?***"),
        ("${BASE}/mcp?token=t", "${BASE}/mcp?***"),
        ("https://h.example/a@b", "https://h.example/a@b"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    """C025: what stands before the host and behind the path is masked by position; `${VAR}` stays as it is written."""
    assert masked_url(url) == shown


def test_secrets_of_a_remote_server_do_not_print() -> None:
    """C025: neither the URL nor a header's value is in a repr."""
    found = spec({"type": "http", "url": "https://u:tok-1@h/?q=tok-2", "headers": {"A": "tok-3"}})
    assert "tok-" not in repr(found)
    assert "https://***@h/?***" in repr(found)


@pytest.mark.parametrize(
    ("raw", "path", "cause"),
    [
        ({"url": "https://${UNSET_U}.example/mcp"}, "url", "missing variable UNSET_U"),
        ({"headers": {"Authorization": "Bearer ${UNSET_T}"}}, "headers.Authorization", "missing variable UNSET_T"),
        ({"url": "${EMPTY}"}, "url", "expected an address that begins with http:// or https://"),
        ({"url": "${EMPTY}ftp://h"}, "url", "expected an address that begins with http:// or https://"),
        ({"url": "https:///mcp"}, "url", "names no host"),
        ({"url": "https://h.example:port/"}, "url", "no URL"),
        ({"url": "https://h.example/a b"}, "url", "no blanks"),
        ({"url": "https://h.example\\@evil.example/"}, "url", "no blanks, backslashes"),
        ({"headers": {"A": "x\r\nB: y"}}, "headers.A", "line break"),
        ({"headers": {"A": "x\ny\n"}}, "headers.A", "line break"),
        ({"headers": {"A": "x\u0000"}}, "headers.A", "NUL"),
        ({"headers": {"A": "x\u001b"}}, "headers.A", "control character"),
        ({"headers": {"A": "\u6f22"}}, "headers.A", "Latin-1"),
        ({"headers": {"A b": "x"}}, 'headers."A b"', "no header can have this name"),
        ({"headers": {"": "x"}}, 'headers.""', "no header can have this name"),
        ({"headers": {"A": 1}}, "headers.A", "expected a string, found a number; put it in quotes"),
        ({"headers": {"A": None}}, "headers.A", "expected a string, found null"),
        ({"headers": {"A": "1", "a": "2"}}, "headers.a", "stands twice"),
        ({"headers": ["A: b"]}, "headers", "expected an object, found a list"),
    ],
)
def test_wrong_remote_entries(raw: dict[str, Any], path: str, cause: str) -> None:
    """C020, C098: what cannot be sent as it is written fails that server by name, and nothing is sent."""
    said = problem({"type": "http", "url": "https://h.example/mcp", **raw})
    assert f"mcpServers.s.{path}" in said
    assert cause in said


def test_a_line_break_at_the_end_of_a_header() -> None:
    """A secret read from a file ends in a line break more often than not: it is not sent, and that is said."""
    context = Context({"T": "tok-1\r\n"}, "/e")
    raw = {"type": "http", "url": "https://h/", "headers": {"A": "Bearer ${T}"}}
    assert http({"headers": {"A": "Bearer ${T}"}}, context=context).headers == {"A": "Bearer tok-1"}
    [warning] = parsed(raw, context=context).warnings
    assert "headers.A: the line break" in warning
    assert "tok-1" not in warning


@pytest.mark.parametrize(
    ("raw", "key", "text"),
    [
        ({"args": []}, "args", "not used by a remote server"),
        ({"env": {"A": "1"}}, "env", "not used by a remote server"),
        ({"cwd": "/"}, "cwd", "not used by a remote server"),
        ({"oauth": {}}, "oauth", "not used yet"),
        ({"headersHelper": "x"}, "headersHelper", "not used yet"),
        ({"hedaers": {}}, "hedaers", "unknown key"),
        ({"headers": {"content-TYPE": "x"}}, "headers.content-TYPE", "mcphub sets this header itself"),
        ({"headers": {"Mcp-Session-Id": "x"}}, "headers.Mcp-Session-Id", "mcphub sets this header itself"),
        ({"headers": {"Mcp-Param-A": "x"}}, "headers.Mcp-Param-A", "mcphub sets this header itself"),
        ({"headers": {"Host": "evil.example"}}, "headers.Host", "mcphub sets this header itself"),
        ({"url": "http://h.example/"}, "url", "plain http to h.example"),
    ],
)
def test_warnings_of_remote_entries(raw: dict[str, Any], key: str, text: str) -> None:
    """What has no effect, and what is sent in the open, is said once."""
    [warning] = parsed({"type": "http", "url": "https://h.example/mcp", **raw}).warnings
    assert f"mcpServers.s.{key}: " in warning
    assert text in warning


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://localhost/mcp", "http://[::1]:80/", "https://h/"])
def test_plain_http_on_this_machine(url: str) -> None:
    """What does not leave the machine needs no TLS."""
    assert parsed({"type": "http", "url": url}).warnings == ()


def test_headers_that_mcphub_sets_are_not_sent() -> None:
    """A second Content-Length would let a request be split."""
    assert http({"headers": {"Content-Length": "5", "X": "y"}}).headers == {"X": "y"}


def test_a_project_cannot_send_a_credential_away() -> None:
    """A repository's URL and headers get no variable that is a credential by its name, set or not; yours do."""
    env = {"GITHUB_TOKEN": "tok-1", "MY_API_KEY": "tok-2", "TEAM": "blue", "HTTPS_PROXY": "http://u:tok-3@p"}
    context = Context(env, "/e")
    raw = {
        "type": "http",
        "url": "https://h.example/${TEAM}?k=${MY_API_KEY}",
        "headers": {
            "Authorization": "Bearer ${GITHUB_TOKEN}",
            "X": "${TEAM}${UNSET_SECRET}${HTTPS_PROXY:-own}",
            "Y": "${MONKEY:-m}",
        },
    }
    found = spec(raw, Scope.PROJECT, context)
    assert isinstance(found.transport, HttpSpec)
    assert str(found.transport.url) == "https://h.example/blue?k="
    assert found.transport.headers == {"Authorization": "Bearer ", "X": "blueown", "Y": "m"}
    assert found.workspace == "/w"
    said = parsed(raw, Scope.PROJECT, context).warnings
    assert {name for name in [*env, "UNSET_SECRET"] if any(f"{name} is a credential" in text for text in said)} == {
        "GITHUB_TOKEN",
        "MY_API_KEY",
        "HTTPS_PROXY",
        "UNSET_SECRET",
    }
    mine = {key: value for key, value in raw.items() if key != "headers"}
    transport = spec(mine, Scope.USER, context).transport
    assert isinstance(transport, HttpSpec)
    assert str(transport.url).endswith("k=tok-2")


def test_a_remote_server_that_is_switched_off() -> None:
    """What is switched off is checked, not expanded: a variable that is missing does not matter."""
    outcome = parsed({"type": "http", "url": "https://${NOPE}/", "enabled": False}).outcome
    assert isinstance(outcome, Off)
    assert isinstance(outcome.spec.transport, HttpSpec)


def test_the_key_of_a_remote_server() -> None:
    """C009: two tenants at one URL differ by their headers and are two servers; the order of headers is nothing."""

    def key(**raw: Any) -> str:
        return spec({"type": "http", "url": "https://h/", **raw}).key().digest

    assert key() != key(headers={"A": "1"})
    assert key(headers={"A": "1"}) != key(headers={"A": "2"})
    assert key(headers={"A": "1", "B": "2"}) == key(headers={"B": "2", "A": "1"})
    assert key() != key(url="https://h/?t=1")
    assert key(type="streamable-http") == key()
