"""The answer to "why", from the values that decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mcphub.config.layer import Layer
from mcphub.config.names import name_fault
from mcphub.desired import desired_state, distinct, instance_key
from mcphub.policy.approval import subject
from mcphub.questions.explain import facts, instance_row, near_names, why
from mcphub.spec import InstanceKey, Off, Scope, Want
from mcphub.status import ServerStatus, WhyReport
from mcphub.store.approvals import Decision, Decisions
from tests.fakes.canned_hub import failed, server
from tests.questions.machine import (
    CATALOGUE,
    ENTERPRISE,
    OWN,
    PROJECT,
    SETTINGS,
    USER,
    asked,
    managed,
    nothing,
    own,
    plugin,
    resolved,
    servers,
)
from tests.questions.test_inventory import HOUSE

A = {"a": {"command": "run"}}
URL = {"a": {"type": "http", "url": "https://bad.example/mcp"}}


def user(entries: Mapping[str, Any]) -> Layer:
    return servers(Scope.USER, entries)


def project(entries: Mapping[str, Any]) -> Layer:
    return servers(Scope.PROJECT, entries)


def stop(report: WhyReport) -> tuple[str, str]:
    """The step at which it ends, and the file and key that decided."""
    step = next(step for step in report["steps"] if step["verdict"] == "no")
    origin = step["origin"]
    return step["step"], "" if origin is None else f"{origin['path']}:{origin['line']} {origin['key']}"


#: what is the matter: the layers, the step at which it ends, what decided, words of the answer, the first thing to do.
CAUSES: dict[str, tuple[list[Layer], str, str, str, str]] = {
    "denied by name": (
        [managed({"deniedMcpServers": [{"serverName": "a"}]}), user(A)],
        "policy",
        f"{SETTINGS}:3 deniedMcpServers[0]",
        'denied by policy: {"serverName": "a"} in ' + f"{SETTINGS}:3 deniedMcpServers[0]",
        f"ask who manages this computer to change {SETTINGS}:3 deniedMcpServers[0]",
    ),
    "denied by command": (
        [managed({"deniedMcpServers": [{"serverCommand": ["run"]}]}), user(A)],
        "policy",
        f"{SETTINGS}:3 deniedMcpServers[0]",
        '{"serverCommand": ["run"]}',
        f"ask who manages this computer to change {SETTINGS}:3 deniedMcpServers[0]",
    ),
    "denied by URL": (
        [managed({"deniedMcpServers": [{"serverUrl": "bad.example"}]}), user(URL)],
        "policy",
        f"{SETTINGS}:3 deniedMcpServers[0]",
        '{"serverUrl": "bad.example"}',
        f"ask who manages this computer to change {SETTINGS}:3 deniedMcpServers[0]",
    ),
    "denied by the person": (
        [user(A), own('[policy]\ndeniedMcpServers = [{serverName = "a"}]\n')],
        "policy",
        f"{OWN}:2 policy.deniedMcpServers[0]",
        "this is your own rule",
        f"edit {OWN}:2 policy.deniedMcpServers[0]",
    ),
    "not on the list": (
        [managed({"allowedMcpServers": [{"serverName": "b"}]}), user(A)],
        "policy",
        f"{SETTINGS}:2 allowedMcpServers",
        "not allowed by policy",
        f"ask who manages this computer to change {SETTINGS}:2 allowedMcpServers, which would have to name it",
    ),
    "on the person's list only": (
        [
            managed({"allowedMcpServers": [{"serverName": "b"}], "allowManagedMcpServersOnly": True}),
            user(A),
            own('[policy]\nallowedMcpServers = [{serverName = "a"}]\n'),
        ],
        "policy",
        f"{SETTINGS}:2 allowedMcpServers",
        f"{OWN}:2 policy.allowedMcpServers does not count, by {SETTINGS}:7 allowManagedMcpServersOnly",
        f"ask who manages this computer to change {SETTINGS}:2 allowedMcpServers, which would have to name it",
    ),
    "broken policy": (
        [managed('{"deniedMcpServers": ['), user(A)],
        "policy",
        "",
        f"policy cannot be read, so only the organisation's own servers may run: cannot use {SETTINGS}:1:23",
        f"ask who manages this computer: cannot use {SETTINGS}:1:23",
    ),
    "broken rules of the person": (
        [user(A), own("[policy]\nallowedMcpServers = 1\n")],
        "policy",
        "",
        f"cannot use {OWN}:2 policy.allowedMcpServers",
        f"correct your own rules: cannot use {OWN}:2 policy.allowedMcpServers",
    ),
    "enterprise": (
        [servers(Scope.ENTERPRISE, {"e": {"command": "e"}}), user(A)],
        "enterprise",
        f"{ENTERPRISE}:0 mcpServers",
        f"{ENTERPRISE} has exclusive control over MCP servers",
        f"ask who manages this computer: only {ENTERPRISE} says which servers there are",
    ),
    "not approved": (
        [project(A)],
        "approval",
        f"{PROJECT}:2 mcpServers.a",
        "waits for your approval",
        "look at what it runs and decide: mcphub approve a",
    ),
    "switched off in its file": (
        [user({"a": {"command": "run", "enabled": False}})],
        "switch",
        f"{USER}:2 mcpServers.a",
        f"switched off by {USER}:2 mcpServers.a.enabled",
        "switch it on: mcphub enable a",
    ),
    "switched off by a project": (
        [project({"a": {"command": "run", "enabled": False}})],
        "switch",
        f"{PROJECT}:2 mcpServers.a",
        f"switched off by {PROJECT}:2 mcpServers.a.enabled",
        f"edit {PROJECT}:2 mcpServers.a.enabled",
    ),
    "broken entry": (
        [user({"a": {"command": 1}})],
        "entry",
        f"{USER}:2 mcpServers.a",
        f"{USER}:2 mcpServers.a.command: expected a string, found a number",
        f"correct {USER}:2 mcpServers.a; the daemon reads it again by itself",
    ),
    "missing variable": (
        [user({"a": {"command": "run", "args": ["${NOPE}"]}})],
        "entry",
        f"{USER}:2 mcpServers.a",
        f"{USER}:2 mcpServers.a.args[0]: missing variable NOPE",
        "set the variable: mcphub env set NOPE",
    ),
    "blank form": (
        [user({"a": {"url": ""}})],
        "entry",
        f"{USER}:2 mcpServers.a",
        "not configured yet",
        f"write its url in {USER}:2 mcpServers.a",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_its_answer(cause: str) -> None:
    """The step, the file and key that decided, a sentence that says so, and what would change it."""
    layers, step, origin, words, first = CAUSES[cause]
    report = why(asked("a", resolved(*layers)))
    assert (report["configured"], report["wanted"]) == (True, False)
    assert stop(report) == (step, origin)
    assert words in report["answer"]
    assert report["answer"].startswith("a does not run: ")
    assert report["next"][0].startswith(first)


def approved(entries: Mapping[str, Any]) -> Decisions:
    asks = subject(resolved(project(entries)).servers["a"])
    assert asks is not None
    return {("/w", "a"): Decision((asks.content(),))}


def test_what_changed_since_it_was_approved() -> None:
    """Another content than the approved one waits, and the way on is the same."""
    report = why(asked("a", resolved(project({"a": {"command": "other"}})), approved(A)))
    assert stop(report)[0] == "approval"
    assert "changed since you approved it" in report["answer"]
    assert report["next"] == ["look at what it runs and decide: mcphub approve a"]
    report = why(asked("a", resolved(project(A)), approved(A)))
    assert (report["wanted"], report["state"]) == (True, "may run")
    assert [step["text"] for step in report["steps"] if step["step"] == "approval"] == ["you have approved just this"]


def test_all_that_have_the_name() -> None:
    """By precedence: who wins, who is shadowed, also where it cannot be read; beside an enterprise's nobody counts."""
    one = resolved(project(A), user({"a": 3}), plugin("x", {"a": {"command": "p"}}))
    report = why(asked("a", one, approved(A)))
    shown = [(claim["standing"], claim["origin"]["path"], claim["text"]) for claim in report["claims"]]
    wrong = f"cannot use server a: {USER}:2 mcpServers.a: expected an object, found a number"
    assert shown == [("effective", PROJECT, ""), ("shadowed", USER, wrong)]
    assert f"it wins over {USER}:2 mcpServers.a" in report["steps"][0]["text"]

    one = resolved(servers(Scope.ENTERPRISE, A), project(A), user(A))
    report = why(asked("a", one))
    assert [claim["standing"] for claim in report["claims"]] == ["effective", "ignored", "ignored"]
    assert report["wanted"]


def test_a_duplicate_names_its_winner_and_the_winner_what_it_suppresses() -> None:
    """Whichever of the two is asked about."""
    one = resolved(user(A), plugin("x", {"p": {"command": "run"}}))
    report = why(asked("plugin:x:p", one))
    assert stop(report) == ("duplicate", f"{USER}:2 mcpServers.a")
    assert report["answer"].endswith("it is the same server as a (user), which runs in its place")
    assert report["state"] == "disabled (duplicate)"
    assert "mcphub remove a" in report["next"][0]
    assert not report["wanted"]
    report = why(asked("a", one))
    assert [origin["path"] for origin in report["suppresses"]] == ["/p/x/.mcp.json"]


def test_what_would_stand_in_the_way_next() -> None:
    """Of what is switched off policy is told too: switching it on would not help."""
    one = resolved(managed({"deniedMcpServers": [{"serverName": "a"}]}), user(A), off={"a": ""})
    report = why(asked("a", one))
    assert stop(report)[0] == "switch"
    assert [step["text"][:13] for step in report["steps"] if step["verdict"] == "unasked"] == ["were it on: d"]
    assert report["next"] == [
        "switch it on: mcphub enable a",
        f"ask who manages this computer to change {SETTINGS}:3 deniedMcpServers[0]",
    ]


def wants(how: str) -> dict[str, Any]:
    return {"reason": "login_required", "detail": "x", "how": how, "scopes": []}


HELD = {
    "client": "claude", "workspace": "/w", "calls": "write", "state": "open", "failures": 5, "since": 61.0,
    "until": 4.5, "cause": "HTTP 503",
}  # fmt: skip
OVER = {
    "phase": "serve", "kind": "exited", "message": "it ended", "remedy": "give it pipes", "exit_code": 3,
    "stderr_tail": [], "at": "", "layer": "process",
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "answer", "following"),
    [
        (server("a"), "a runs", []),
        (
            server("a", state_text="connected (slow)", reason="slow: it took 3.0 s to answer ping", slow=True),
            "a runs; slow: it took 3.0 s to answer ping",
            [],
        ),
        (server("a", stale="tools/list is old"), "a runs; tools/list is old", []),
        (
            server("a", state_text="connected (unreachable)", reason="unreachable now: x", layer="network", slow=True),
            "a cannot be reached; unreachable now: x",
            [
                "see whether it runs, and what is on the way to it; it is asked again by itself, and "
                "`mcphub reconnect a` ends the calls that wait for it"
            ],
        ),
        (
            server("a", reason="no way to its host", layer="network", warnings=["no way to its host"]),
            "a cannot be reached; no way to its host",
            ["join a network that leads to its host; the connection is looked at by itself then"],
        ),
        (
            server("a", state_text="connected (stopped)", reason="its process is stopped", layer="process", slow=True),
            "a runs; its process is stopped",
            ["let its process go on: kill -CONT 4712; or start another: mcphub reconnect a"],
        ),
        (
            server("a", held_back=[HELD]),
            "a runs; write calls of claude in /w are held back, after 5 without an answer",
            [],
        ),
        (
            server("a", unanswered=[{"client": "claude", "workspace": "/w", "since": 40.2}], queued=2),
            "a runs; claude in /w has not answered a question of it for 40 s, and 2 calls wait",
            ["answer what it asks, in that agent; `mcphub reconnect a` ends the call that asks"],
        ),
        (
            server("a", unanswered=[{"client": "", "workspace": "", "since": 1.0}]),
            "a runs; an agent has not answered a question of it for 1 s",
            [],
        ),
        (server("a", last_error={**OVER, "over": True}), "a runs", []),
        (
            server("a", state="pending", state_text="pending", reason="starting", last_error={**OVER, "over": True}),
            "a does not run yet: pending: starting",
            ["wait; see how it goes: mcphub status a --watch"],
        ),
        (
            server("a", state="pending", state_text="pending 2/5", reason="it ended", last_error=OVER),
            "a does not run yet: pending 2/5: it ended",
            ["give it pipes", "wait; see how it goes: mcphub status a --watch"],
        ),
        (
            server("a", state="pending", state_text="pending", reason="starting", stale="its tools are old"),
            "a does not run yet: pending: starting; its tools are old",
            ["wait; see how it goes: mcphub status a --watch"],
        ),
        (
            failed("a"),
            "a does not run: failed: 5 attempts failed: spawn npx ENOENT",
            ["install Node.js", "see what it wrote: mcphub logs a", "try again: mcphub reconnect a"],
        ),
        (
            server("a", state="pending", state_text="pending 2/5", reason="it ended"),
            "a does not run yet: pending 2/5: it ended",
            ["wait; see how it goes: mcphub status a --watch"],
        ),
        (
            server("a", state="pending", state_text="pending (idle)", reason="idle"),
            "a does not run yet: pending (idle): idle",
            ["attach an agent in /w, or one below it; it is started then"],
        ),
        (
            server("a", state="needs-auth", state_text="needs-auth", reason="401"),
            "a does not run: needs-auth: 401",
            ["try again: mcphub reconnect a"],
        ),
        (
            server("a", state="needs-auth", state_text="needs-auth", reason="x", sign_in=wants("browser")),
            "a does not run: needs-auth: x",
            ["sign in: mcphub login a"],
        ),
        (
            server("a", state="needs-auth", state_text="needs-auth", reason="x", sign_in=wants("vault")),
            "a does not run: needs-auth: x",
            ["open the vault: mcphub vault unlock"],
        ),
        (server("a", sign_in=wants("browser")), "a runs", ["sign in: mcphub login a"]),
        (
            server("a", sign_in={**wants("wait"), "reason": "policy_denied"}),
            "a runs; x (policy_denied)",
            ["wait, it is tried again by itself; at once: mcphub reconnect a"],
        ),
    ],
    ids=[
        "connected", "slow", "stale", "away", "no way", "stopped", "held back", "asks", "asks alone", "well again",
        "starting anew", "advice", "starting", "failed", "pending", "idle", "needs-auth", "sign-in", "vault", "scope",
        "denied",
    ],  # fmt: skip
)
def test_the_connection(row: ServerStatus, answer: str, following: list[str]) -> None:
    """Of what may run the daemon's row says the rest."""
    one = resolved(project(A))
    known = asked("a", one, approved(A))
    place = {"scope": "project", "path": PROJECT, "key": "mcpServers.a", "line": 2}
    listed: list[Any] = [
        {**server("a"), "workspace": "/v", "origin": {**place, "path": "/v/.mcp.json"}},
        {**failed("a"), "workspace": "/other", "origin": place},
        {**row, "workspace": "/w", "origin": place},
    ]
    rows = {InstanceKey("a", str(number), one["workspace"]): one for number, one in enumerate(listed)}
    report = why(instance_row(known, distinct(one, approved(A), CATALOGUE, nothing), rows))
    assert (report["answer"], report["next"], report["state"]) == (answer, following, row["state_text"])


@pytest.mark.parametrize(
    ("layer", "verdict"), [("", "yes"), ("server", "yes"), ("network", "unknown"), ("process", "unknown")]
)
def test_a_connection_that_nobody_can_vouch_for(layer: str, verdict: str) -> None:
    """What cannot be reached, or is stopped, is not said to be in order; nor is it said to be broken."""
    one = resolved(project(A))
    place = {"scope": "project", "path": PROJECT, "key": "mcpServers.a", "line": 2}
    row: Any = {**server("a", layer=layer, reason="x"), "workspace": "/w", "origin": place}
    known = instance_row(
        asked("a", one, approved(A)),
        distinct(one, approved(A), CATALOGUE, nothing),
        {InstanceKey("a", "1", "/w"): row},
    )
    step = why(known)["steps"][-1]
    assert (step["step"], step["verdict"], step["text"]) == ("connection", verdict, "connected, 2 tools; x")


def test_without_a_daemon() -> None:
    """What may run is not said to run."""
    known = msgspec.structs.replace(asked("a", resolved(user(A))), live=False)
    report = why(known)
    assert report["answer"] == "a may run; no daemon was asked"
    assert report["next"] == ["start the daemon: mcphub serve"]
    assert not report["live"]


def test_a_name_that_nobody_has() -> None:
    """It is said where was looked, what may have been meant, and how to have one."""
    one = resolved(user({"github": {"command": "x"}}), plugin("x", {"db": {"command": "y"}}))
    report = why(asked("gitub", one))
    assert (report["configured"], report["near"], report["claims"]) == (False, ["github"], [])
    assert report["answer"] == "no server is named gitub here"
    assert report["steps"][0]["text"].endswith(f"looked in {USER}, /p/x/.mcp.json")
    assert report["next"][0] == "did you mean github? run: mcphub why github"
    assert "mcphub add gitub" in report["next"][1]
    assert why(asked("db", one))["near"] == ["plugin:x:db"]
    report = why(msgspec.structs.replace(asked("q", one), elsewhere=("/v",)))
    assert report["next"][0] == "agents in /v have it; ask from there: --workspace /v"
    assert "only there while nothing is configured" in why(asked("mcphub", one))["answer"]


def test_a_name_that_nobody_can_have() -> None:
    """Where an enterprise is alone nothing can be added, and a file that cannot be read may name it."""
    report = why(asked("q", resolved(servers(Scope.ENTERPRISE, A))))
    assert report["next"] == [
        f"ask who manages this computer: {ENTERPRISE} says which servers there are, and no other file can add one"
    ]
    broken = resolved(servers(Scope.USER, {}), managed("{"))
    assert why(asked("q", broken))["next"][0] == f"correct {SETTINGS}, which cannot be read and may name it"
    assert why(asked("\x1b[2J", broken))["answer"].startswith('no server is named "\\u001b[2J" here, and none can be: ')


def test_names_that_may_be_meant() -> None:
    """Case and signs between words first, then the end of a plugin's name, then likeness."""
    known = ["github", "git-lab", "plugin:x:git", "time"]
    assert near_names("GitHub", known) == ["github"]
    assert near_names("git_lab", known)[0] == "git-lab"
    assert near_names("git", known)[0] == "plugin:x:git"
    assert near_names("zzz", known) == []


@pytest.mark.parametrize("cause", [*CAUSES, "house"])
def test_it_says_what_is_done(cause: str) -> None:
    """What may run by the answer is just what the daemon would run, and the state is its row's."""
    layers = HOUSE if cause == "house" else CAUSES[cause][0]
    one = resolved(*layers)
    shown = distinct(one, {}, CATALOGUE, nothing)
    wishes = desired_state({"/w": shown}, {}, unwrap=CATALOGUE, executed=nothing)
    for name, found in shown.servers.items():
        report = why(asked(name, one))
        key = instance_key(found)
        wish = wishes.get(key) if key is not None else None
        assert report["wanted"] == isinstance(wish, Want), name
        if isinstance(wish, Off):
            assert report["state"] == f"disabled ({wish.because})", name
            if wish.because in ("policy", "approval", "person"):
                assert wish.detail in report["answer"], name


def test_a_name_that_no_server_can_have() -> None:
    """What is wrong with the entry is told, also where it is asked for as the file has it."""
    one = resolved(user({"a b": {"command": "x"}}))
    report = why(asked("a b", one))
    assert report["answer"].startswith('"a b" does not run: cannot use server "a b": ')
    assert report["claims"][0]["origin"]["key"] == 'mcpServers."a b"'
    for name, shown in (("", '""'), ("a\nb", r'"a\nb"'), ("a:b:\x9b", r'"a:b:\u009b"')):
        report = why(asked(name, one))
        assert report["answer"] == f"no server is named {shown} here, and none can be: {name_fault(name)}"
        assert not any("mcphub add" in step for step in report["next"])


IDE = {"a": {"type": "ws-ide", "url": "ws://127.0.0.1:9/", "ideName": "VS Code", "ideRunningInWindows": True}}


def test_a_server_of_an_editor() -> None:
    """Which editor it is, and that it is not on this side, is told; so is what to see to where it cannot be reached."""
    one = resolved(user(IDE))
    place = {"scope": "user", "path": one.servers["a"].origin.path, "key": "mcpServers.a", "line": 2}
    row: Any = {**failed("a"), "workspace": "", "origin": place}
    rows = {InstanceKey("a", "1", ""): row}
    report = why(instance_row(asked("a", one), distinct(one, {}, CATALOGUE, nothing), rows))
    [entry] = [step["text"] for step in report["steps"] if step["step"] == "entry"]
    assert entry == 'it is in order: ws://127.0.0.1:9/, of the editor "VS Code", which runs in Windows'
    assert any("networkingMode=mirrored" in text for text in report["next"])
    plain = {"a": {key: IDE["a"][key] for key in ("type", "url")}}
    [entry] = [step["text"] for step in why(asked("a", resolved(user(plain))))["steps"] if step["step"] == "entry"]
    assert entry == "it is in order: ws://127.0.0.1:9/, of an editor"


def test_variables_that_agents_bring() -> None:
    """C023: an entry that lacks what agents bring runs for them; each value has an instance, and all are told."""
    entry = user({"a": {"command": "run", "args": ["${TOK}"], "description": "${OTHER}"}})
    base = resolved(entry)
    known = facts("a", base, [base], {}, unwrap=CATALOGUE, executed=nothing, client_env=("OTHER", "TOK"))
    text = "TOK comes from each agent (clientEnv), and each value has an instance of its own"
    shown = distinct(base, {}, CATALOGUE, nothing)
    own = instance_key(base.servers["a"])
    assert own is not None
    place: Any = {"scope": "user", "path": USER, "key": "mcpServers.a", "line": 2}
    none: Any = {**failed("a"), "origin": place}
    report = why(instance_row(known, shown, {own: none}))
    assert report["answer"] == f"a does not run: {text}; no agent that is attached has brought TOK"
    assert (report["state"], report["brought"]) == ("waits for an agent's variables", ["TOK"])
    assert report["next"][0] == "start the agent with TOK set; `mcphub connect` hands on what clientEnv lists"
    assert "mcphub env set TOK" in report["next"][1]

    one: Any = {**server("a"), "origin": place, "used_by": [3, 9]}
    other: Any = {**failed("a"), "origin": place, "used_by": [4]}
    foreign: Any = {**server("a"), "origin": {**place, "line": 7}}
    keys = [InstanceKey("a", digest, "") for digest in ("1", "2", "3")]
    rows = {own: none, keys[0]: one, keys[1]: other, keys[2]: foreign}
    report = why(instance_row(known, shown, rows, {3: "claude (3)", 4: "codex (4)"}))
    assert (report["answer"], report["state"]) == ("a runs for agents that bring TOK", "connected")
    assert [(i["brings"], i["state"], i["agents"]) for i in report["instances"]] == [
        (False, "failed", []), (True, "connected", ["claude (3)", "agent (9)"]), (True, "failed", ["codex (4)"])
    ]  # fmt: skip
    steps = {step["step"]: step for step in report["steps"]}
    assert steps["entry"]["verdict"] == "unasked" and "missing variable TOK" in steps["entry"]["text"]
    assert (steps["agents"]["verdict"], steps["agents"]["text"]) == ("yes", text)
    report = why(instance_row(known, shown, {own: none, keys[1]: other}))
    assert report["answer"] == f"a does not run: {text}; none of them is connected"

    report = why(msgspec.structs.replace(known, live=False))
    assert report["answer"] == f"a may run; {text}"
    # One that has a value without any agent runs for all.
    base = resolved(user({"a": {"command": "run", "args": ["${TOK:-none}"]}}))
    known = facts("a", base, [base], {}, unwrap=CATALOGUE, executed=nothing, client_env=("TOK",))
    own = instance_key(base.servers["a"])
    assert own is not None
    rows = {keys[0]: other, own: {**one, "used_by": []}}
    report = why(instance_row(known, distinct(base, {}, CATALOGUE, nothing), rows))
    assert (report["answer"], len(report["instances"])) == ("a runs", 2)
    assert "instances" not in why(asked("a", base))


@pytest.mark.parametrize(
    ("layers", "place", "following"),
    [
        ([managed({"allowedTools": []}), user(A)], f"{SETTINGS}:2 allowedTools", "ask who manages this computer to"),
        ([managed({"allowedTools": ["b/*"]}), user(A)], f"{SETTINGS}:2 allowedTools", "ask who manages this computer"),
        ([own("[policy]\ndeniedTools = ['*/*']\n"), user(A)], f"{OWN}:2 policy.deniedTools[0]", "edit"),
        ([user({"a": {"command": "run", "enabledTools": []}})], f"{USER}:2 mcpServers.a.enabledTools", "edit"),
    ],
)
def test_rules_that_leave_no_tool(layers: list[Layer], place: str, following: str) -> None:
    """The server may run, and agents see none of its tools: file and key are told, and who can change them."""
    report = why(asked("a", resolved(*layers)))
    (step,) = [step for step in report["steps"] if step["step"] == "tools"]
    origin = step["origin"]
    assert origin is not None and f"{origin['path']}:{origin['line']} {origin['key']}" == place
    assert report["answer"].startswith("a may run; ") and "but agents see none of its tools: " in report["answer"]
    assert place in report["answer"] and report["wanted"]
    assert report["next"][0].startswith(following) and report["next"][0].endswith(place)


def test_rules_that_leave_none_of_the_tools_that_there_are() -> None:
    """Only a daemon knows which tools there are; what it says is told."""
    one = resolved(managed({"allowedTools": ["a/x"]}), user(A))
    found = asked("a", one)
    row = server("a")
    row["nothing_left"] = "agents see none of its 2 tools: reasons"
    report = why(msgspec.structs.replace(found, row=row))
    assert report["answer"] == "a runs, but agents see none of its 2 tools: reasons"
    assert "mcphub policy list" in report["next"][0]
    assert not [step for step in why(found)["steps"] if step["step"] == "tools"]
