"""What policy looks like to people."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.policy.combine import documents_of, policy_of
from mcphub.questions.policy import ask, ask_configured, policy_report, verdict_report
from mcphub.spec import Scope, StdioSpec
from tests.questions.machine import CATALOGUE, OWN, SETTINGS, managed, nothing, own, resolved, servers

RULES: dict[str, Any] = {
    "allowManagedMcpServersOnly": True,
    "deniedMcpServers": [{"serverName": "bad"}],
    "allowedMcpServers": [{"serverName": "a"}, {"serverUrl": "x.example"}],
    "deniedTools": ["*/delete"],
}
OWN_RULES = '[policy]\nallowedMcpServers = [{serverName = "mine"}]\ndeniedTools = ["b/c"]\nallowedTools = []\n'


def rows(*layers: Layer) -> list[tuple[int, str, str, str, bool, str]]:
    report = policy_report(documents_of(resolved(*layers)), live=True)
    return [
        (r["rank"], r["list"], r["rule"], f"{r['origin']['path']}:{r['origin']['line']}", r["in_force"], r["note"])
        for r in report["rules"]
    ]


def test_every_rule_with_its_place_and_rank() -> None:
    """Also those that do not count, and why."""
    ours = f"{SETTINGS}:2 allowManagedMcpServersOnly leaves this to the organisation"
    assert rows(managed(RULES), own(OWN_RULES)) == [
        (1, "allowManagedMcpServersOnly", "true", f"{SETTINGS}:2", True, ""),
        (1, "deniedMcpServers", '{"serverName": "bad"}', f"{SETTINGS}:4", True, ""),
        (1, "allowedMcpServers", '{"serverName": "a"}', f"{SETTINGS}:9", True, ""),
        (1, "allowedMcpServers", '{"serverUrl": "x.example"}', f"{SETTINGS}:12", False, "it matches nothing"),
        (1, "deniedTools", "*/delete", f"{SETTINGS}:17", True, ""),
        (2, "allowedMcpServers", '{"serverName": "mine"}', f"{OWN}:2", False, ours),
        (2, "deniedTools", "b/c", f"{OWN}:3", True, ""),
        (2, "allowedTools", "(nothing)", f"{OWN}:4", False, ours),
    ]


def test_the_highest_list_counts() -> None:
    """Of two lists of the organisation the lower one is shown as what it is."""
    low = managed({"allowedMcpServers": [{"serverName": "b"}]})
    found = rows(managed({"allowedMcpServers": []}), Layer(Scope.MANAGED, "/x", policy=low.policy))
    assert [(rank, rule, counts) for rank, _, rule, _, counts, _ in found][0] == (1, "(nothing)", True)


def test_what_closes_is_said() -> None:
    """A broken document is listed with its reason."""
    report = policy_report(documents_of(resolved(managed("{"))), live=False)
    assert report["closed"][0].startswith(f"cannot use {SETTINGS}:1:2")
    assert [place["path"] for place in report["documents"]] == [SETTINGS]
    assert not report["live"]


@pytest.mark.parametrize(
    ("question", "about", "allowed", "words"),
    [
        ({"name": "bad"}, "bad", False, '{"serverName": "bad"}'),
        ({"name": "a"}, "a", True, "allowed by policy"),
        ({"name": "q"}, "q", False, "no serverName entry"),
        ({"url": "https://u:p@y.example/?t=1"}, "https://***@y.example/?***", False, "no serverUrl entry"),
        ({"command": ("npx", "-y", "x")}, "npx -y x", False, "no serverName entry"),
    ],
)
def test_a_server_that_need_not_be_configured(question: Any, about: str, allowed: bool, words: str) -> None:
    """By its command, its URL, or else its name; a secret in a URL is not repeated."""
    policy = policy_of(resolved(managed(RULES)))
    shown, verdict = ask(policy, **question, unwrap=CATALOGUE, executed=nothing)
    assert (shown, verdict.allowed) == (about, allowed)
    assert words in verdict.sentence


def test_a_name_alone_proves_nothing() -> None:
    """Where what it runs counts, that is said."""
    policy = policy_of(resolved(managed({"allowedMcpServers": [{"serverCommand": ["x"]}, {"serverName": "a"}]})))
    _, verdict = ask(policy, name="a", unwrap=CATALOGUE, executed=nothing)
    assert verdict.sentence.endswith("but serverCommand entries count for what it runs: ask about that")


def test_what_stands_behind_a_proxy_and_what_is_executed() -> None:
    """A rule that denies meets both."""
    policy = policy_of(
        resolved(managed({"deniedMcpServers": [{"serverUrl": "bad.example"}, {"serverCommand": ["/opt/bad"]}]}))
    )
    proxied = "https://proxy.example/?mcp_url=https%3A%2F%2Fbad.example%2F"
    assert not ask(policy, url=proxied, unwrap=CATALOGUE, executed=nothing)[1].allowed

    def leads_to(spec: StdioSpec) -> tuple[str, ...]:
        return ("/opt/bad",) if spec.command == "b" else ()

    assert not ask(policy, command=("b",), unwrap=CATALOGUE, executed=leads_to)[1].allowed
    assert ask(policy, command=("c",), unwrap=CATALOGUE, executed=leads_to)[1].allowed


def test_a_server_that_is_configured() -> None:
    """What its entry says is what is judged."""
    one = resolved(managed(RULES), servers(Scope.USER, {"bad": {"command": "x"}}))
    about, verdict = ask_configured(one.servers["bad"], policy_of(one), unwrap=CATALOGUE, executed=nothing)
    report = verdict_report(about, verdict, live=True)
    assert (report["about"], report["allowed"], report["rule"]) == (
        "bad (/u/mcp.json:2 mcpServers.bad)", False, '{"serverName": "bad"}',
    )  # fmt: skip
    assert report["origin"] is not None
    assert report["origin"]["key"] == "deniedMcpServers[0]"
