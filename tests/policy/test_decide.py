"""What policy lets run: row by row from tests/data/policy/servers.txt, and what holds for every policy."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.config.policy_document import PolicyDocument
from mcphub.policy.candidate import Candidate, candidate_of
from mcphub.policy.combine import effective
from mcphub.policy.decide import Judge, decide
from mcphub.policy.matchers import MATCHERS
from mcphub.policy.rules import Policy
from mcphub.spec import Origin, Scope, Secret
from tests.policy.tables import document, lines, server

ENV = {"H": "ok.example", "C": "rm", "HOME": "/home/u"}


class Row(msgspec.Struct, frozen=True):
    number: int
    documents: tuple[PolicyDocument, ...]
    shown: str
    server: str
    allowed: bool
    words: str


def _rows() -> list[Row]:
    documents: list[PolicyDocument] = []
    rows = []
    for line in lines("servers.txt"):
        if line.order and line.cells == ("none",):
            documents = []
        elif line.order:
            documents = [*documents, document(Scope(line.cells[0]), line.cells[1])]
        else:
            shown, one, answer, words = (*line.cells, "")[:4]
            assert answer.rstrip(" |") in ("yes", "no"), line
            rows.append(Row(line.number, tuple(documents), shown, one, answer.startswith("yes"), words.rstrip(" |")))
    return rows


@pytest.mark.parametrize("row", _rows(), ids=lambda row: f"{row.number}: {row.shown}")
def test_rows(row: Row) -> None:
    """C120 C121 C123 C129 C132: deny wins, an empty list is not an absent one, names alone prove nothing."""
    candidate = candidate_of(server(row.server, ENV))
    assert candidate is not None
    verdict = decide(candidate, effective(row.documents))
    assert verdict.allowed is row.allowed, verdict.sentence
    assert row.words in verdict.sentence


def test_a_verdict_names_rule_and_place() -> None:
    """Who asks why gets the entry as it is written, and file, line and key."""
    found = document(Scope.MANAGED, '{\n  "deniedMcpServers": [\n    {"serverName": "a"},\n    {"serverName": "x"}]}')
    verdict = decide(Candidate("x", Scope.USER, "built in"), effective([found]))
    assert verdict.rule == '{"serverName": "x"}'
    assert str(verdict.origin) == "/etc/mcphub/managed-settings.json:4 deniedMcpServers[1]"


def test_a_program_is_denied_by_what_it_leads_to() -> None:
    """A link of another name does not hide a denied program."""
    policy = effective([document(Scope.MANAGED, '{"deniedMcpServers": [{"serverCommand": ["rm", "-rf"]}]}')])
    link = Candidate("x", Scope.USER, "program", ("/u/tidy", "-rf"), executed=("/u/tidy", "/bin/rm"))
    assert not decide(link, policy).allowed
    assert decide(msgspec.structs.replace(link, executed=("/u/tidy",)), policy).allowed
    path = effective([document(Scope.MANAGED, '{"deniedMcpServers": [{"serverCommand": ["/bin/rm", "-rf"]}]}')])
    assert not decide(link, path).allowed


# --- whatever the documents say together

ENTRIES = st.one_of(
    st.fixed_dictionaries({"serverName": st.sampled_from(["a", "b", "A", "plugin:p:a"])}),
    st.fixed_dictionaries({"serverCommand": st.sampled_from([["x"], ["x", "1"], ["/bin/x"], []])}),
    st.fixed_dictionaries({"serverUrl": st.sampled_from(["https://a.example/*", "https://*.example/*", "*", "a.x"])}),
)
DOCUMENTS = st.builds(
    lambda scope, raw, fault: PolicyDocument(Origin(scope, "/p", ""), raw, fault=fault),
    st.sampled_from([Scope.MANAGED, Scope.USER, Scope.ENTERPRISE, Scope.PROJECT]),
    st.fixed_dictionaries(
        {},
        optional={
            "allowedMcpServers": st.one_of(st.lists(ENTRIES, max_size=3), st.none(), st.just(5)),
            "deniedMcpServers": st.one_of(st.lists(ENTRIES, max_size=3), st.none()),
            "allowManagedMcpServersOnly": st.sampled_from([True, False, None]),
            "deniedMcpServer": st.just([]),
            "somethingElse": st.just(1),
        },
    ),
    st.sampled_from(["", "", "", "cannot use /p: broken"]),
)
SCOPES = st.sampled_from(list(Scope))
CANDIDATES = st.one_of(
    st.builds(
        lambda scope, name, argv, own, var: Candidate(name, scope, "program", argv, argv, (), own, variables=var),
        SCOPES, st.sampled_from(["a", "b", "plugin:q:a"]), st.sampled_from([("x",), ("x", "1"), ("/usr/bin/x",)]),
        st.booleans(), st.booleans(),
    ),
    st.builds(
        lambda scope, name, url, var: Candidate(name, scope, "remote", urls=(Secret(url),), variables=var),
        SCOPES, st.sampled_from(["a", "b"]), st.sampled_from(["https://a.example/m", "http://b.example:1/", "https://a@b@c/"]),
        st.booleans(),
    ),
    st.builds(lambda scope, name: Candidate(name, scope, "built in"), SCOPES, st.sampled_from(["a", "b"])),
)  # fmt: skip


@settings(max_examples=200)
@given(documents=st.lists(DOCUMENTS, max_size=5), candidate=CANDIDATES)
def test_what_any_document_denies_never_runs(documents: list[PolicyDocument], candidate: Candidate) -> None:
    """C120: no other document, list, lock or fault, and no rank, gives back what one entry takes away."""
    verdict = decide(candidate, effective(documents))
    for one in documents:
        for entry in one.raw.get("deniedMcpServers") or ():
            for matcher in MATCHERS:
                subject = matcher.subject(candidate)
                if matcher.kind not in entry or subject is None or entry[matcher.kind] == []:
                    continue
                pattern, _ = matcher.read(entry[matcher.kind], True)
                if matcher.denies(pattern, subject):
                    assert not verdict.allowed
    if any(one.fault for one in documents) and not candidate.own:
        assert not verdict.allowed


@settings(max_examples=200)
@given(documents=st.lists(DOCUMENTS, max_size=4), more=DOCUMENTS, candidate=CANDIDATES)
def test_a_further_document_without_a_list_of_what_is_allowed_allows_nothing_more(
    documents: list[PolicyDocument], more: PolicyDocument, candidate: Candidate
) -> None:
    """To allow takes an entry that allows: denying, locking or breaking can only take away."""
    raw = {key: value for key, value in more.raw.items() if key in ("deniedMcpServers", "deniedMcpServer")}
    less = msgspec.structs.replace(more, raw=raw)
    if not decide(candidate, effective(documents)).allowed:
        for place in range(len(documents) + 1):
            assert not decide(candidate, effective([*documents[:place], less, *documents[place:]])).allowed


def _large_policy() -> Policy:
    text = [f'{{"serverUrl": "https://*.host{n}.example/*"}}, {{"serverCommand": ["srv{n}", "a"]}}' for n in range(25)]
    names = ", ".join(f'{{"serverName": "denied-{n}"}}' for n in range(50))
    rules = ", ".join(text)
    first = f'{{"deniedMcpServers": [{names}, {rules}], "allowedMcpServers": [{rules}]}}'
    return effective([document(Scope.MANAGED, first.replace("srv", "x-srv").replace("host", "bad")),
                      document(Scope.USER, f'{{"allowedMcpServers": [{rules}]}}')])  # fmt: skip


def test_five_hundred_servers_are_judged_at_once() -> None:
    """A fleet's list of rules costs a start nothing that anybody would notice: 250 rules, 500 servers."""
    policy = _large_policy()
    servers = [
        Candidate(f"s{n}", Scope.USER, "program", (f"srv{n % 25}", "a"))
        if n % 2
        else Candidate(f"s{n}", Scope.USER, "remote", urls=(Secret(f"https://a.host{n % 25}.example/mcp"),))
        for n in range(500)
    ]
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        judge = Judge(policy)
        answers = [judge.decide(one).allowed for one in servers]
        best = min(best, time.perf_counter() - start)
    assert all(answers)
    assert best < 0.1, f"{best * 1000:.1f} ms"
