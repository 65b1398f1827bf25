"""When a server of a project may run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context, EnvFile
from mcphub.config.layer import Entry
from mcphub.config.resolve import Resolved, resolve
from mcphub.policy.approval import Approval, Subject, approval_item, changes, decide, detail, subject
from mcphub.spec import Scope
from mcphub.store.approvals import Approved, Decision

RAW = {"command": "echo", "args": ["hi", "${A}"], "env": {"K": "${SECRET}"}}
ENV = {"A": "1", "SECRET": "tok-1", "B": "bin"}


def resolved(
    raw: Mapping[str, Any], *, scope: Scope = Scope.PROJECT, directory: str = "/w", name: str = "t",
    env: Mapping[str, str] = ENV, env_files: Mapping[str, EnvFile] | None = None,
) -> Resolved:  # fmt: skip
    data = json.dumps({"mcpServers": {name: raw}}).encode()
    layer = parse_file(data, scope=scope, path=f"{directory}/.mcp.json", directory=directory)
    return resolve([layer], Context(env, env_files=env_files or {})).servers[name]


def asked(raw: Mapping[str, Any], **more: Any) -> Subject:
    found = subject(resolved(raw, **more))
    assert found is not None
    return found


APPROVED = {("/w", "t"): Decision((asked(RAW).content(),))}


def test_what_is_asked() -> None:
    """B88: a person sees command, directory and names of variables, and no value."""
    found = asked(RAW)
    assert found.command == ("echo", "hi", "${A}")
    assert (found.name, found.directory, found.cwd, found.env_names) == ("t", "/w", "/w", ("K",))
    assert "tok-1" not in repr(found)


def test_what_would_really_run() -> None:
    """C133: program, arguments, directory and files with their variables replaced, credentials as references."""
    raw = {
        "command": "${PROG}", "args": ["-y", "${PKG:-evil}", "--k=${API_TOKEN}"], "cwd": "${DIR}", "envFile": "${F}",
        "env": {"K": "${V}"},
    }  # fmt: skip
    env = {"PROG": "npx", "DIR": "sub", "API_TOKEN": "tok-12345", "F": "/e/f", "V": "value-1"}
    one = resolved(raw, env=env, env_files={"/e/f": EnvFile()})
    found = subject(one)
    assert found is not None
    item = approval_item(one, found, Approval.WAITING, {})
    assert item["command"] == ["${PROG}", "-y", "${PKG:-evil}", "--k=${API_TOKEN}"]
    assert item["resolved"] == {
        "command": ["npx", "-y", "evil", "--k=${API_TOKEN}"], "cwd": "/w/sub", "env_file": "/e/f",
    }  # fmt: skip
    assert item["unpinned"] == ["evil"]
    assert "tok-12345" not in repr((item, one.spec)) and "value-1" not in repr(item)


def test_where_it_would_really_ask() -> None:
    """C133: the URL and the helper of a remote server; a credential is empty there, which shows."""
    raw = {"type": "http", "url": "https://${H}/${API_TOKEN}", "headersHelper": "${PROG} 'a b'"}
    one = resolved(raw, env={"H": "evil.example", "PROG": "/x/y", "API_TOKEN": "tok-12345"})
    found = subject(one)
    assert found is not None
    assert found.resolved() == {"command": ["https://evil.example/"], "helper": "/x/y 'a b'"}


def test_how_it_would_sign_in() -> None:
    """C133: who would see this person's sign-in is part of what is approved, with its variables replaced; a secret is
    neither shown nor part of it."""
    oauth = {"issuer": "https://${H}", "clientId": "c", "clientSecret": "${S}", "hosts": ["10.0.0.1"]}
    raw = {"type": "http", "url": "https://h.example/", "oauth": oauth}
    one = resolved(raw, env={"H": "as.example", "S": "hunter-2"})
    found = subject(one)
    assert found is not None
    assert found.resolved() == {"oauth": "oauth.issuer=https://as.example"}
    assert json.loads(found.oauth) == {**oauth, "clientSecret": "${S}"}
    assert "hunter-2" not in repr(found) and found.reads == ("H", "S")
    elsewhere = subject(resolved(raw, env={"H": "evil.example", "S": "hunter-2"}))
    other_secret = subject(resolved(raw, env={"H": "as.example", "S": "hunter-3"}))
    assert elsewhere is not None and other_secret is not None
    assert elsewhere.digest != found.digest == other_secret.digest
    plain = subject(resolved({**raw, "oauth": {**oauth, "clientSecret": "in-the-open"}}, env={"H": "as.example"}))
    assert plain is not None and "in-the-open" not in plain.oauth + plain.content().entry


def test_what_an_entry_sets_beside() -> None:
    """C133: whose word is believed, the arguments by which calls are made again, and all other keys that do something;
    what cannot be read is shown as it is."""
    tools = {"t": {"idempotencyArgument": "key", "limits": {"rate": 1}}, "u": {"limits": {}}}
    found = asked({"command": "x", "trustAnnotations": True, "tools": tools, "sharing": "shared", "source": "odd"})
    assert found.trusts_annotations and found.idempotency_arguments == ("t: key",)
    assert found.settings == ('sharing: "shared"', f"tools: {json.dumps(tools)}")
    assert not asked({"command": "x"}).trusts_annotations and asked({"command": "x"}).settings == ()
    entry = Entry("s", {"command": "x", "trustAnnotations": "yes", "tools": ["t"]}, found.source.origin)
    odd = replace(found, source=entry)
    assert (odd.trusts_annotations, odd.idempotency_arguments, odd.settings) == (False, (), ('tools: ["t"]',))


def test_what_says_itself_is_not_said_twice() -> None:
    """Without variables there is nothing to add."""
    assert asked({"command": "echo", "cwd": "sub"}).resolved() == {}


@pytest.mark.parametrize("decisions", [{}, {("/w", "other"): Decision((asked(RAW).content(),))}])
def test_nothing_decided_means_waiting(decisions: dict[tuple[str, str], Decision]) -> None:
    """C136: a new file's server waits, whatever else is approved."""
    assert decide(asked(RAW), decisions) is Approval.WAITING


def test_approved_content_runs() -> None:
    """C133: exactly the approved content may run; key order of the file is not content."""
    assert decide(asked(RAW), APPROVED) is Approval.APPROVED
    assert decide(asked(dict(reversed(RAW.items()))), APPROVED) is Approval.APPROVED


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["ho", "${A}"]},
        {"command": "sh"},
        {"env": {"K": "${SECRET}", "L": "1"}},
        {"env": {"K": "other"}},
        {"env": {}},
        {"cwd": "sub"},
        {"args": ["hi", "1"]},
        {"inheritEnv": True},
        {"timeout": 5000},
        {"anything": "new"},
    ],
)
def test_any_change_asks_again(change: dict[str, Any]) -> None:
    """C133: another entry than the approved one waits as changed, and the approved one is valid again after a
    revert."""
    assert decide(asked({**RAW, **change}), APPROVED) is Approval.CHANGED
    assert decide(asked(RAW), APPROVED) is Approval.APPROVED


def test_resolved_values_count_and_secrets_do_not() -> None:
    """C133: a variable that changes what runs asks again; the value of one that only `env` sets does not."""
    assert decide(asked(RAW, env={**ENV, "A": "2"}), APPROVED) is Approval.CHANGED
    assert decide(asked(RAW, env={**ENV, "SECRET": "tok-2"}), APPROVED) is Approval.APPROVED


def test_secrets_are_not_in_the_digest() -> None:
    """C133: the value of a secret, or of a credential by its name, asks nobody again, wherever it stands; another
    reference does."""
    raw = {"command": "echo", "args": ["--t=${MY_TOKEN}", "${A}"]}
    decisions = {("/w", "t"): Decision((asked(raw, env={"MY_TOKEN": "tok-1", "A": "1"}).content(),))}
    assert decide(asked(raw, env={"MY_TOKEN": "tok-2", "A": "1"}), decisions) is Approval.APPROVED
    assert decide(asked(raw, env={"MY_TOKEN": "tok-1", "A": "2"}), decisions) is Approval.CHANGED
    other = {"command": "echo", "args": ["--t=${OTHER_TOKEN}", "${A}"]}
    assert decide(asked(other, env={"OTHER_TOKEN": "tok-1", "A": "1"}), decisions) is Approval.CHANGED


def test_a_url_counts() -> None:
    """C133: of a remote server the URL that is asked, its headers and its helper."""
    raw = {"type": "http", "url": "http://127.0.0.1/${A}", "headers": {"X": "1"}, "headersHelper": "bin/token --fresh"}
    found = asked(raw)
    assert (found.command, found.env_names, found.helper) == (("http://127.0.0.1/${A}",), ("X",), "bin/token --fresh")
    decisions = {("/w", "t"): Decision((found.content(),))}
    assert decide(asked(raw), decisions) is Approval.APPROVED
    for change in ({"url": "http://127.0.0.2/${A}"}, {"headers": {"Y": "1"}}, {"headersHelper": "evil"}):
        assert decide(asked({**raw, **change}), decisions) is Approval.CHANGED
    assert decide(asked(raw, env={**ENV, "A": "2"}), decisions) is Approval.CHANGED
    helped = {**raw, "url": "http://127.0.0.1/", "headersHelper": "${A}/token"}
    decisions = {("/w", "t"): Decision((asked(helped).content(),))}
    assert decide(asked(helped), decisions) is Approval.APPROVED
    assert decide(asked(helped, env={**ENV, "A": "2"}), decisions) is Approval.CHANGED


def test_a_person_sees_all_that_it_would_have() -> None:
    """C044, C182: what it reads and takes over, and which code is not pinned, are part of what is asked."""
    raw = {"command": "npx", "args": ["-y", "pkg@latest"], "env": {"K": "${secret:k}"}, "inheritEnv": True}
    found = subject(resolved({**raw, "env": {"K": "${MY_TOKEN:-x}"}}))
    assert found is not None
    assert (found.reads, found.inherits, found.unpinned) == (("MY_TOKEN",), ("*",), ("pkg@latest",))
    found = asked({"command": "a", "inheritEnv": ["B"], "envFile": ".env"}, env_files={"/w/.env": EnvFile({})})
    assert (found.inherits, found.env_file) == (("B",), ".env")


def test_what_was_approved_is_shown_beside_what_is_there_now() -> None:
    """C133: a person sees old and new; of what was never approved, or is approved, there is nothing to compare."""
    assert changes(asked(RAW), APPROVED) == changes(asked(RAW), {}) == ()
    lines = changes(asked({**RAW, "command": "sh"}), APPROVED)
    assert '-   "command": "echo",' in lines
    assert '+   "command": "sh",' in lines
    assert "tok-1" not in repr(APPROVED)
    stored = asked({"command": "c", "args": ["--key=hunter2"], "env": {"A": "hunter2"}}).content()
    assert "hunter2" not in repr(stored)


def test_names_from_an_env_file_count() -> None:
    """C044: approval covers which variables are set, those of the file included."""
    raw = {**RAW, "envFile": ".env"}
    first = asked(raw, env_files={"/w/.env": EnvFile({"X": "1"})})
    assert first.env_names == ("K", "X")
    decisions = {("/w", "t"): Decision((first.content(),))}
    assert decide(asked(raw, env_files={"/w/.env": EnvFile({"X": "2"})}), decisions) is Approval.APPROVED
    assert decide(asked(raw, env_files={"/w/.env": EnvFile({"X": "1", "Y": "1"})}), decisions) is Approval.CHANGED


def test_another_directory_or_name_is_not_approved() -> None:
    """C135: an approval holds for its directory and name alone."""
    assert decide(asked(RAW, directory="/w2"), APPROVED) is Approval.WAITING
    assert decide(asked(RAW, name="u"), APPROVED) is Approval.WAITING


def test_a_rejection_wins() -> None:
    """C135: a rejected server stays so, even for content that was approved."""
    decisions = {("/w", "t"): Decision((asked(RAW).content(),), rejected=True)}
    assert decide(asked(RAW), decisions) is Approval.REJECTED
    assert decide(asked({**RAW, "command": "x"}), decisions) is Approval.REJECTED


def test_a_digest_of_something_else_is_worth_nothing() -> None:
    """C135: what the file of decisions says must be the digest, not the name or the command."""
    forged = {("/w", "t"): Decision((Approved("", ("echo", "hi", "${A}"), "/w", ("K",)),))}
    assert decide(asked(RAW), forged) is Approval.CHANGED


def test_only_projects_need_approval() -> None:
    """What a person wrote needs none, and what cannot run has nothing to approve."""
    assert subject(resolved(RAW, scope=Scope.USER)) is None
    assert subject(resolved({"command": 1})) is None
    assert subject(resolved({"url": ""})) is None


@pytest.mark.parametrize("state", list(Approval))
def test_each_state_says_what_to_do(state: Approval) -> None:
    """One line with the next step, and the row of the control API."""
    text = detail(asked(RAW), state)
    assert (text == "") is (state is Approval.APPROVED)
    assert text == "" or "mcphub approve t" in text
    item = approval_item(resolved(RAW), asked(RAW), state, {}, ["/w/.mcp.json belongs to uid 7"])
    assert item["warnings"] == ["/w/.mcp.json belongs to uid 7"]
    assert item["state"] == str(state)
    assert item["origin"] == {"scope": "project", "path": "/w/.mcp.json", "key": "mcpServers.t", "line": 1}
    assert item["command"] == ["echo", "hi", "${A}"]
    assert item["digest"] == asked(RAW).digest
