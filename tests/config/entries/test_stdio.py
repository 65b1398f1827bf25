"""Tables for the entries of programs."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.entries.context import Context, EnvFile
from mcphub.config.entries.stdio import env_file_path
from mcphub.spec import Scope, Secret, ServerSpec, StdioSpec
from tests.config.entries.written import CONTEXT, ENV, PROJECT, USER, parsed, problem, read, stdio


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
        ({"command": "x", "inheritEnv": "yes"}, "inheritEnv", "expected true, false or a list of names"),
        ({"command": "x", "inheritEnv": [1]}, "inheritEnv[0]", "expected a string"),
        ({"command": "x", "stdio": "pty"}, "stdio", "expected 'socketpair' or 'pipe'"),
        ({"command": "x", "envFile": 1}, "envFile", "expected a string"),
        ({"command": "x", "envFile": "~/.env"}, "envFile", "~ is not replaced"),
    ],
)
def test_wrong_fields_are_named(raw: dict[str, Any], key: str, part: str) -> None:
    """A field of the wrong type or form is refused with its key path and what was expected."""
    message = problem(raw)
    assert message.startswith(f"cannot use server s: {USER}:1 mcpServers.s.{key}: ")
    assert part in message


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


@pytest.mark.parametrize("where", ["args[0]", "command"])
def test_a_secret_in_the_command_line(where: str) -> None:
    """Others can read it there: that is said with the file and the key, and what to do instead; `env` is no such place,
    nor is what only looks like a reference."""
    raw: dict[str, Any] = {"command": "x", "args": ["--token=${secret:gh/t}"]}
    if where == "command":
        raw = {"command": "${secret:gh/t}"}
    assert [text for text in parsed(raw).warnings if "secret" in text] == [
        f"{USER}:1 mcpServers.s.{where}: puts ${{secret:gh/t}} into the command line, where others can read it; "
        "use env instead"
    ]
    assert parsed({"command": "x", "args": ["secret:gh"], "env": {"T": "${secret:gh/t}"}}).warnings == ()
