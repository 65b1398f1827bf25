"""Tables for what a headers helper is given and what it may print."""

from __future__ import annotations

import pytest

from mcphub.auth.helper_output import MOST, BadOutput, environment, headers_of, secrets_of
from mcphub.spec import HelperSpec, Secret

HUB = {"PATH": "/bin", "HOME": "/u", "VAULT_TOKEN": "tok-1", "NOTIFY_SOCKET": "/run/x", "TEAM": "blue"}
URL = "https://h.example/mcp"


def test_a_persons_helper_gets_the_hubs_environment() -> None:
    """All of it but what is for the service; name and URL of the server under both hosts' names."""
    assert environment(HUB, HelperSpec((Secret("x"),)), "s", URL) == {
        "PATH": "/bin", "HOME": "/u", "VAULT_TOKEN": "tok-1", "TEAM": "blue",
        "MCPHUB_SERVER_NAME": "s", "MCPHUB_SERVER_URL": URL,
        "CLAUDE_CODE_MCP_SERVER_NAME": "s", "CLAUDE_CODE_MCP_SERVER_URL": URL,
    }  # fmt: skip


def test_a_foreign_helper_gets_no_credentials() -> None:
    """One of a repository or a plugin loses what is a credential by its name; a plugin's own variables are there."""
    helper = HelperSpec((Secret("x"),), foreign=True, env={"CLAUDE_PLUGIN_ROOT": Secret("/p")})
    found = environment(HUB, helper, "s", URL)
    assert "VAULT_TOKEN" not in found
    assert (found["TEAM"], found["CLAUDE_PLUGIN_ROOT"]) == ("blue", "/p")


def test_headers() -> None:
    """Strings by name; one line break at an end is cut, as a command prints it; ours are told and left out."""
    printed = b' {"Authorization": "Bearer t\\n", "X-A": "", "Host": "evil", "mcp-session-id": "1"}\n'
    assert headers_of(printed) == ({"Authorization": "Bearer t", "X-A": ""}, ("Host", "mcp-session-id"))
    assert headers_of(b"{}") == ({}, ())


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (b"", "it printed nothing"),
        (b"Bearer tok-9", "its output is not JSON"),
        (b'{"A": "tok-9"} trailing', "its output is not JSON"),
        (b"[" * 100_00, "its output is not JSON"),
        (b"\xff", "its output is not UTF-8"),
        (b'["A: tok-9"]', "expected a JSON object of strings, found a list"),
        (b'"tok-9"', "expected a JSON object of strings, found a string"),
        (b'{"A": 9}', "the value of 'A' is a number, and no string"),
        (b'{"A": null}', "the value of 'A' is null, and no string"),
        (b'{"A b": "tok-9"}', "'A b': no header can have this name"),
        (b'{"A": "tok-9\\r\\nX: y"}', "'A': a header's value cannot hold a line break"),
        (b'{"A": "\\u6f22"}', "'A': a header's value cannot hold characters beyond Latin-1"),
        (b'{"A": "1", "a": "2"}', "'a' stands twice"),
        (b" " * (MOST + 1), "it printed more than 64 KiB"),
    ],
)
def test_bad_output(printed: bytes, said: str) -> None:
    """Each is named by what is wrong with it, and no value is repeated."""
    with pytest.raises(BadOutput) as caught:
        headers_of(printed)
    assert said in str(caught.value)
    assert "tok-9" not in str(caught.value)


def test_secrets() -> None:
    """Values are hidden whole and without the scheme in front; short ones are too common to be."""
    assert secrets_of({"A": "Bearer tok-12345", "B": "yes"}, 6) == ("Bearer tok-12345", "tok-12345")
