"""Tables for environment files, child environments and what a project may not set."""

from __future__ import annotations

import pytest

from mcphub.config.environment import (
    base_environment,
    blocked_in_project,
    child_environment,
    daemon_environment,
    hub_environment,
    listed,
    parse_environment,
    valid_name,
)
from mcphub.spec import Secret, StdioSpec

DAEMON = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/u",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "XDG_RUNTIME_DIR": "/run/user/1",
    "HTTPS_PROXY": "http://p:1",
    "no_proxy": "localhost",
    "SSL_CERT_FILE": "/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "GH_TOKEN": "gh",
    "LD_PRELOAD": "/x.so",
    "NOTIFY_SOCKET": "/run/n",
    "LISTEN_FDS": "2",
    "CREDENTIALS_DIRECTORY": "/run/credentials/mcphub",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1/bus",
}
#: For the daemon as a service, and no child's.
SERVICE = {"NOTIFY_SOCKET", "LISTEN_FDS", "CREDENTIALS_DIRECTORY"}
BASE = set(DAEMON) - {"AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "LD_PRELOAD", "DBUS_SESSION_BUS_ADDRESS"} - SERVICE


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# note\n\n  # indented\nA=1\n", {"A": "1"}),
        ("export A=1\nexport\tB=2", {"A": "1", "B": "2"}),
        ("A = 1 \n", {"A": "1"}),
        ("A=x y #z", {"A": "x y #z"}),
        ("A=", {"A": ""}),
        ("A='it is \"so\" $B \\n' # why", {"A": 'it is "so" $B \\n'}),
        ('A="a\\nb\\t\\"q\\" \\\\ \\$x"', {"A": 'a\nb\t"q" \\ $x'}),
        ("A=a=b=c", {"A": "a=b=c"}),
        ("A=${B}", {"A": "${B}"}),
        ("\ufeffA=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("A=é\u2028x", {"A": "é\u2028x"}),
        ("exportA=1", {"exportA": "1"}),
    ],
)
def test_environment_file(text: str, values: dict[str, str]) -> None:
    """Each form of a line gives exactly the value that the grammar says."""
    assert parse_environment(text.encode(), "/e") == (values, ())


@pytest.mark.parametrize(
    ("data", "values", "problem"),
    [
        (b"A=1\nwhat tok-1\nB=2", {"A": "1", "B": "2"}, "/e:2: expected NAME=VALUE"),
        (b"1A=tok-1", {}, "/e:1: expected NAME=VALUE"),
        (b"A='tok-1", {}, "/e:1: expected one closing single quote"),
        (b'A="tok-1" x', {}, "/e:1: expected one closing double quote"),
        (b'A="tok-1\\"', {}, "/e:1: expected one closing double quote"),
        (b"A=tok-1\0", {}, "/e:1: a value cannot hold a NUL"),
        (b"A=tok-1\nA=2", {"A": "2"}, "/e:2: A is set twice"),
        (b"A=\xff", {}, "not UTF-8 at byte 2"),
        ("A=1".encode("utf-16"), {}, "not UTF-8 at byte 0"),
    ],
)
def test_bad_lines_are_named_and_skipped(data: bytes, values: dict[str, str], problem: str) -> None:
    """A bad line is named by number without its content, and the other lines count."""
    found, problems = parse_environment(data, "/e")
    assert found == values
    assert len(problems) == 1
    assert problem in problems[0]
    assert "tok-1" not in problems[0]


def test_the_file_wins_over_the_process() -> None:
    """C023: what a person wrote for the hub beats what happened to start the daemon."""
    assert hub_environment({"A": "1", "B": "1"}, {"B": "2"}) == {"A": "1", "B": "2"}


def test_child_gets_the_base_set_and_its_own() -> None:
    """C026: a child has PATH, locale, proxy and CA variables and what its entry sets, and no other key of the
    daemon."""
    child = child_environment(DAEMON, StdioSpec("x", env={"X": Secret("1"), "LANG": Secret("de")}))
    assert set(child) == BASE | {"X"}
    assert child["X"] == "1"
    assert child["LANG"] == "de"
    assert all(type(value) is str for value in child.values())


def test_inherit_env_opens_it() -> None:
    """C026: `inheritEnv` gives everything, or the named ones; what a service manager tells the daemon is never
    passed."""
    everything = child_environment(DAEMON, StdioSpec("x", inherit_env=True))
    assert set(everything) == set(DAEMON) - SERVICE
    named = child_environment(DAEMON, StdioSpec("x", inherit_env=("GH_TOKEN", "NOT_THERE")))
    assert set(named) == BASE | {"GH_TOKEN"}


def test_base_environment() -> None:
    """A daemon that a host starts gets the base set, and where to find the key ring."""
    assert set(base_environment(DAEMON)) == BASE
    assert set(daemon_environment(DAEMON)) == BASE | {"DBUS_SESSION_BUS_ADDRESS"}
    assert daemon_environment({}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD", "LD_AUDIT", "LD_SOMETHING_NEW", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH",
        "PYTHONSTARTUP", "PYTHONHOME", "BASH_ENV", "ENV", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_SSH_VARIANT",
        "OPENSSL_CONF", "PATH", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
        "npm_config_registry", "UV_INDEX_URL", "PIP_INDEX_URL", "BASH_FUNC_ls%%", "GIT_CONFIG_COUNT", "PERL5OPT",
        "RUBYOPT", "JAVA_TOOL_OPTIONS", "HOME", "XDG_CONFIG_HOME",
    ],
)  # fmt: skip
def test_loader_variables_are_blocked_by_family(name: str) -> None:
    """C044: what decides which code runs, or whom it trusts, is recognised by family and in either case."""
    assert blocked_in_project([name, "X"]) == (name,)


@pytest.mark.parametrize(
    "name", ["API_KEY", "NODE_ENV", "PYTHONUNBUFFERED", "GIT_AUTHOR_NAME", "LDAP_URL", "ENVIRONMENT"]
)
def test_plain_variables_are_not_blocked(name: str) -> None:
    """C044: ordinary settings of a project stay usable."""
    assert blocked_in_project([name]) == ()


@pytest.mark.parametrize(("name", "answer"), [("A", True), ("a.b", True), ("", False), ("A=B", False), ("A\0", False)])
def test_valid_names(name: str, answer: bool) -> None:
    """A name that the system cannot hold is told apart."""
    assert valid_name(name) is answer


def test_only_what_is_listed() -> None:
    """C023: of variables that somebody offers those count that were asked for; one that is empty is there."""
    assert listed({"A": "1", "B": "", "C": "3"}, ["B", "A", "D", "A"]) == {"A": "1", "B": ""}
    assert listed({"A": "1"}, ()) == {}
