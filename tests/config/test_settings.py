"""Tables for the hub's settings."""

from __future__ import annotations

import pytest

from mcphub.config.settings import (
    HubSettings,
    Listen,
    NamesSettings,
    WebappSettings,
    awaiting_restart,
    listen_address,
    parse_settings,
)

PATH = "/c/settings.toml"


def test_nothing_means_defaults() -> None:
    """No file is no problem."""
    settings, problems = parse_settings(b"", PATH, {})
    assert settings == HubSettings()
    assert problems == ()
    assert (settings.connect.local, settings.connect.timeout, settings.connect.attempts) == (3, 30.0, 5)
    assert (settings.names.max_length, settings.lists.wait, settings.logs.stderr_bytes) == (64, 3.0, 1048576)
    assert (settings.lists.ttl, settings.lists.page_bytes) == (60.0, 4 << 20)


def test_every_key_is_read() -> None:
    """Names are camel case in the file; whole numbers do for times."""
    text = b"""
    clientEnv = ["GH_TOKEN"]
    [names]
    maxLength = 48
    [lists]
    wait = 0
    ttl = 5
    pageBytes = 65536
    descriptionLength = 4096
    [connect]
    local = 5
    remote = 7
    timeout = 1.5
    attempts = 0
    [call]
    timeout = 60
    [logs]
    stderrBytes = 65536
    [trace]
    begin = true
    [stop]
    grace = 0.5
    [roots]
    allowed = ["~/src", "/srv"]
    """
    settings, problems = parse_settings(b"\xef\xbb\xbf" + text, PATH, {})
    assert problems == ()
    assert settings.client_env == ("GH_TOKEN",)
    assert settings.names.max_length == 48
    assert (settings.lists.wait, settings.lists.ttl, settings.lists.page_bytes) == (0, 5, 65536)
    assert settings.lists.description_length == 4096
    assert (settings.connect.local, settings.connect.remote) == (5, 7)
    assert (settings.connect.timeout, settings.connect.attempts) == (1.5, 0)
    assert settings.call.timeout == 60
    assert settings.logs.stderr_bytes == 65536
    assert settings.stop.grace == 0.5
    assert settings.trace.begin is True and not HubSettings().trace.begin
    assert settings.roots.allowed == ("~/src", "/srv")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"[connect\n", f"{PATH}:1:9: "),
        (b"a = 1\na = 2\n", f"{PATH}:2:6: "),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"a = " + b"[" * 100_000, "cannot use"),
    ],
)
def test_a_broken_file_means_defaults(data: bytes, part: str) -> None:
    """A file that is no TOML is named, and the hub runs on defaults."""
    settings, problems = parse_settings(data, PATH, {})
    assert settings == HubSettings()
    assert len(problems) == 1
    assert PATH in problems[0]
    assert part in problems[0]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"local = 0", "connect.local: expected int >= 1; the default 3"),
        (b"local = true", "connect.local: expected int, got bool"),
        (b"local = 2.5", "connect.local"),
        (b'local = "4"', "connect.local: expected int, got str"),
        (b"timeout = inf", "connect.timeout"),
        (b"timeout = nan", "connect.timeout"),
        (b"timeout = 30000", "connect.timeout: expected float <= 3600"),
        (b"attempts = -1", "connect.attempts"),
        (b"attempts = 101", "connect.attempts"),
        (b"max_length = 3", "connect.max_length: unknown key; known here: attempts, local, remote, timeout"),
    ],
)
def test_a_bad_value_means_its_default(line: bytes, part: str) -> None:
    """One wrong key is named with its file and costs nothing but itself."""
    settings, problems = parse_settings(b"[names]\nmaxLength = 50\n[connect]\n" + line, PATH, {})
    assert settings.connect == HubSettings().connect
    assert settings.names.max_length == 50
    assert len(problems) == 1
    assert f"{PATH}: {part}" in problems[0]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"[nmaes]\n", "nmaes: unknown key"),
        (b"connect = 3\n", "connect: expected a table"),
        (b"[xaaIdp]\nsubject = 'x'\n", "xaaIdp.subject: "),
        (b"[vault]\nkey = 'file:key'\n", "vault.key: "),
        (b"[vault]\nkey = 'keyring'\n", "the default os is in force"),
        (b"clientEnv = [1]\n", "clientEnv: expected str, got int"),
    ],
)
def test_odd_sections_are_named(data: bytes, part: str) -> None:
    """What is not understood is said, never ignored in silence."""
    settings, problems = parse_settings(data, PATH, {})
    assert settings == HubSettings()
    assert part in problems[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("127.0.0.1:7712", Listen("127.0.0.1", 7712)),
        ("127.0.0.1:0", Listen("127.0.0.1", 0)),
        ("LocalHost:65535", Listen("127.0.0.1", 65535)),
        ("[::1]:1", Listen("::1", 1)),
    ],
)
def test_an_address_to_listen_on(text: str, expected: Listen | None) -> None:
    """Row 15: the loopback, under each of its names."""
    settings, problems = parse_settings(f'[http]\nlisten = "{text}"\n'.encode(), PATH, {})
    assert problems == ()
    assert listen_address(settings.http.listen) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("0.0.0.0:80", "not on 0.0.0.0"),
        ("[::]:80", "not on [::]"),
        (":80", "not on every address"),
        ("192.168.1.2:80", "loopback only"),
        ("evil.example:80", "loopback only"),
        ("127.0.0.1.evil.example:80", "loopback only"),
        ("::1:80", "loopback only"),
        ("127.0.0.1", "expected HOST:PORT"),
        ("127.0.0.1:", "expected HOST:PORT"),
        ("127.0.0.1:65536", "expected HOST:PORT"),
        ("127.0.0.1:-1", "expected HOST:PORT"),
        ("127.0.0.1:\u00b2", "expected HOST:PORT"),
        ("http://127.0.0.1:80/", "expected HOST:PORT"),
        ("7712", "expected HOST:PORT"),
    ],
)
def test_an_address_that_is_not_served(text: str, part: str) -> None:
    """Row 15: what others could reach is refused by name, and nothing is served over TCP then."""
    settings, problems = parse_settings(f'[http]\nlisten = "{text}"\n'.encode(), PATH, {})
    assert settings.http.listen == ""
    [problem] = problems
    assert problem.startswith(f"{PATH}: http.listen: ")
    assert part in problem


def test_environment_overrides_the_file() -> None:
    """The variables that other hosts use work here, in their units."""
    env = {
        "MCP_TIMEOUT": "2500",
        "MCP_SERVER_CONNECTION_BATCH_SIZE": "8",
        "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE": "9",
    }
    settings, problems = parse_settings(b"[connect]\nlocal = 2\ntimeout = 9\n", PATH, env)
    assert problems == ()
    assert (settings.connect.timeout, settings.connect.local, settings.connect.remote) == (2.5, 8, 9)


@pytest.mark.parametrize("value", ["30", "0", "-1", "1e3", "30s", "NaN", "9" * 400, "²000"])
def test_a_bad_override_is_named_and_ignored(value: str) -> None:
    """C017: a number that is nearly right is not guessed at."""
    settings, problems = parse_settings(b"", PATH, {"MCP_TIMEOUT": value})
    assert settings == HubSettings()
    assert "MCP_TIMEOUT" in problems[0]


def test_what_waits_for_a_restart() -> None:
    """Each key that is read at the start only, when its value is another one; none of those that count at once."""
    begun = HubSettings()
    assert awaiting_restart(begun, begun) == ()
    text = b"""clientEnv = ["A"]
[names]
maxLength = 40
[connect]
timeout = 5
local = 9
[call]
timeout = 5
[plugins]
directories = ["/p"]
[webapp]
refresh = 100
[http]
listen = "127.0.0.1:1"
"""
    now, problems = parse_settings(text, "s", {})
    assert problems == ()
    assert awaiting_restart(begun, now) == ("names.maxLength", "connect.local", "http.listen")


def test_last_good_settings() -> None:
    """A file that is no TOML means what was in force before; the environment still wins."""
    last = HubSettings(names=NamesSettings(40))
    settings, problems = parse_settings(b"[", "s", {"MCP_TIMEOUT": "7000"}, last)
    assert (settings.names, settings.connect.timeout) == (last.names, 7)
    assert "the settings stay as they were" in problems[0]


def test_plugins_and_connectors() -> None:
    """Where plugins are, and which URLs stand for others, in the names that the file has."""
    text = b"""
    [plugins]
    directories = ["~/tools"]
    [webapp]
    catalogue = "https://c.example/"
    unwrapHosts = ["*.proxy.example"]
    unwrapParameter = "u"
    refresh = 60
    """
    settings, problems = parse_settings(text, "/c/settings.toml", {})
    assert problems == ()
    assert settings.plugins.directories == ("~/tools",)
    assert settings.webapp == WebappSettings("https://c.example/", ("*.proxy.example",), "u", 60.0)


@pytest.mark.parametrize("key", ["os", "credentials", "passphrase", "file:/a/b", "file:~/k"])
def test_where_the_key_of_the_vault_is(key: str) -> None:
    """The four sources; a change of it counts at the next start."""
    settings, problems = parse_settings(f"[vault]\nkey = '{key}'\n".encode(), PATH, {})
    assert (settings.vault.key, problems) == (key, ())
    assert awaiting_restart(HubSettings(), settings) == (("vault.key",) if key != "os" else ())
