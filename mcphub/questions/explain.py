"""Owns the answer to "why": from the values that decided about one name to what a person reads, and can do about it.

It must not decide, read or know a daemon: what it says was found by `config.resolve`, `config.dedupe` and `desired`.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from mcphub.config.dedupe import Unwrap
from mcphub.config.entries.entry import SWITCH_UNKNOWN
from mcphub.config.layer import Entry, Layer
from mcphub.config.names import lookup_fault, shown_name
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.resolve import Resolved, ResolvedSet, control, exclusive
from mcphub.config.spelling import near_miss
from mcphub.desired import Executed, Judged, instance_key, judgements, twins
from mcphub.policy.approval import Approval
from mcphub.policy.candidate import OWN_SCOPES
from mcphub.policy.combine import documents_of, policy_of
from mcphub.policy.document import read_policy
from mcphub.policy.rules import Verdict
from mcphub.policy.tools import bars_all, tool_rules
from mcphub.spec import (
    Broken,
    HttpSpec,
    Ide,
    InProcessSpec,
    InstanceKey,
    Off,
    Origin,
    Problem,
    Scope,
    ServerSpec,
    StdioSpec,
    Want,
)
from mcphub.status import CircuitStatus, Claim, OriginStatus, ServerStatus, WhyInstance, WhyReport, WhyStep
from mcphub.store.approvals import Decisions

from .brought import brought, instances, needs_an_agent
from .grouping import grouped
from .place import origin_status

ASK = "ask who manages this computer"
#: The name of the server that is only there while nothing is configured.
BUILT_IN = "mcphub"


class Facts(msgspec.Struct, frozen=True):
    """All that was decided about one name. `resolved` is what agents of the workspace have, before duplicates are taken
    out; `judged` is what became of the name then, None where nobody has it or it is not configured yet. `twins` are
    the servers that run in another's place, by name. `row` is how the daemon shows it, None where none was asked."""

    name: str
    resolved: ResolvedSet
    judged: Judged | None
    twins: Mapping[str, Resolved]
    row: ServerStatus | None = None
    elsewhere: tuple[str, ...] = ()
    live: bool = True
    #: Variables of the entry that agents may bring, and the instances that there are for it.
    brought: tuple[str, ...] = ()
    instances: tuple[WhyInstance, ...] = ()

    @property
    def one(self) -> Resolved | None:
        return self.resolved.servers.get(self.name)


def facts(
    name: str,
    resolved: ResolvedSet,
    sets: Iterable[ResolvedSet],
    decisions: Decisions,
    *,
    unwrap: Unwrap,
    executed: Executed,
    client_env: Collection[str] = (),
) -> Facts:
    """What decides about the name, asked in the way that the daemon asks. `sets` are all that are judged together,
    `client_env` the variables that agents may bring."""
    if name not in resolved.servers and shown_name(name) in resolved.servers:
        name = shown_name(name)  # no server can have it, and so what is wrong with the entry is listed
    one = resolved.servers.get(name)
    found = judgements([one] if one is not None else [], sets, decisions, unwrap=unwrap, executed=executed)
    return Facts(
        name,
        resolved,
        found.get(name),
        twins(resolved, decisions, unwrap, executed),
        brought=brought(one, client_env) if one is not None else (),
    )


def why(facts: Facts) -> WhyReport:
    """The whole answer; also about a name that nobody has."""
    one = facts.one
    if one is None:
        return _unknown(facts)
    steps = list(_steps(facts, one))
    stop = next((step for step in steps if step["verdict"] == "no" and step["step"] != "tools"), None)
    wish = facts.judged.wish if facts.judged is not None else None
    wanted = isinstance(wish, Want) and facts.name not in facts.twins
    report = WhyReport(
        name=facts.name,
        workspace=facts.resolved.workspace,
        configured=True,
        wanted=wanted,
        state=_state(facts, wish),
        answer=_answer(facts, stop, steps[-1]) + _toolless(steps, stop),
        steps=steps,
        claims=list(claims(facts.resolved, facts.name)),
        suppresses=[
            origin_status(facts.resolved.servers[other].origin)
            for other, winner in facts.twins.items()
            if winner.origin == one.origin
        ],
        next=grouped(_next(facts, one)),
        near=[],
        elsewhere=list(facts.elsewhere),
        live=facts.live,
    )
    if facts.brought:
        report["brought"] = list(facts.brought)
        report["instances"] = list(facts.instances)
    return report


def claims(resolved: ResolvedSet, name: str) -> Iterator[Claim]:
    """Everything that has the name, over all layers, by precedence."""
    alone = exclusive(resolved.layers)
    winner = resolved.servers.get(name)
    for layer in resolved.layers:
        for found in _named(layer, name):
            text = found.message if isinstance(found, Problem) else ""
            how = standing(layer, found.origin, winner, alone)
            if how == "ignored" and alone is not None:
                text = text or control(alone)
            yield Claim(origin=origin_status(found.origin), standing=how, text=text)


def standing(layer: Layer, origin: Origin, winner: Resolved | None, alone: Layer | None) -> str:
    """How what stands at `origin` in this layer counts: effective, shadowed, ignored. `alone` is an enterprise's."""
    if alone is not None and layer.scope is not Scope.ENTERPRISE:
        return "ignored"
    wins = winner is not None and (origin, layer.directory) == (winner.origin, winner.directory)
    return "effective" if wins else "shadowed"


def _named(layer: Layer, name: str) -> Iterator[Entry | Problem]:
    yield from (entry for entry in layer.entries if entry.name == name)
    yield from (problem for problem in layer.problems if problem.name == name)


# --- a name that nobody has -------------------------------------------------------------------------------------------


def _unknown(facts: Facts) -> WhyReport:
    resolved, name = facts.resolved, printed(facts.name)
    broken = [layer for layer in resolved.layers if layer.faulty]
    alone = exclusive(resolved.layers)
    near = near_names(facts.name, resolved.servers)
    own_rules = (layer.path for layer in resolved.layers if layer.policy is not None and layer.scope is Scope.USER)
    silent = {*own_rules, *(layer.path for layer in resolved.layers if layer.scope is Scope.EMBEDDED)}
    looked = ", ".join(dict.fromkeys(layer.path for layer in resolved.layers if layer.path not in silent))
    answer = f"no server is named {name} here"
    if facts.name == BUILT_IN:
        answer += "; the built-in server of this name is only there while nothing is configured at all"
    fault = lookup_fault(facts.name)
    if fault:
        answer += f", and none can be: {fault}"
    steps = [_step("configured", "no", None, answer + (f"; looked in {looked}" if looked else "; no file has any"))]
    following = []
    if near:
        following.append(f"did you mean {' or '.join(near)}? run: mcphub why {near[0]}")
    if facts.elsewhere:
        following.append(f"agents in {facts.elsewhere[0]} have it; ask from there: --workspace {facts.elsewhere[0]}")
    following += [f"correct {layer.path}, which cannot be read and may name it" for layer in broken]
    if alone is not None:
        following.append(f"{ASK}: {alone.path} says which servers there are, and no other file can add one")
    elif not fault:
        following.append(f"add it: mcphub add {name} -- COMMAND, or: mcphub add {name} --transport http URL")
    return WhyReport(
        name=facts.name,
        workspace=resolved.workspace,
        configured=False,
        wanted=False,
        state="unknown",
        answer=answer,
        steps=steps,
        claims=[],
        suppresses=[],
        next=following,
        near=near,
        elsewhere=list(facts.elsewhere),
        live=facts.live,
    )


def printed(name: str) -> str:
    """The name as it is typed, a plugin's server's too; what is none is quoted."""
    parts = name.split(":")
    known = name.startswith('"') or all(part == shown_name(part) for part in parts)
    return name if known else shown_name(name)


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that may have been meant."""
    import difflib

    names = sorted(known)
    folded = near_miss(name, names)
    ends = [one for one in names if one.rpartition(":")[2] == name]
    close = difflib.get_close_matches(name[:200], names, n=3, cutoff=0.6)
    return list(dict.fromkeys([*([folded] if folded else []), *ends, *close]))[:3]


# --- the steps --------------------------------------------------------------------------------------------------------


def _step(step: str, verdict: str, origin: Origin | None, text: str) -> WhyStep:
    return WhyStep(step=step, verdict=verdict, origin=None if origin is None else origin_status(origin), text=text)


def _steps(facts: Facts, one: Resolved) -> Iterator[WhyStep]:
    yield _configured(facts, one)
    alone = exclusive(facts.resolved.layers)
    if alone is not None:
        place = Origin(Scope.ENTERPRISE, alone.path, "mcpServers")
        if one.origin.scope is Scope.ENTERPRISE:
            yield _step("enterprise", "yes", place, "only this file counts, and it has the name")
        else:
            yield _step("enterprise", "no", place, control(alone))
    lacking = needs_an_agent(one, facts.brought)
    entry = _entry(one)
    yield {**entry, "verdict": "unasked", "text": f"without an agent's: {entry['text']}"} if lacking else entry
    if facts.brought:
        yield _agents(facts, lacking)
    outcome = one.outcome
    if outcome is None or isinstance(outcome, Problem):
        return
    off = outcome if isinstance(outcome, Off) else None
    if off is not None and off.because == "person":
        yield _step("switch", "no", one.origin, off.detail)
    elif off is None:
        yield _step("switch", "yes", None, "nobody has switched it off")
    if off is None or off.because == "person":
        yield _policy(facts, one, off)
    if off is not None:
        return
    assert facts.judged is not None, "a server with a spec was judged"
    if facts.judged.asked is not None and facts.judged.approval is not None:
        yield _approval(one, facts.judged.approval, facts.judged.wish)
    if (winner := facts.twins.get(facts.name)) is not None:
        text = f"it is the same server as {winner.name} ({winner.origin.scope}), which runs in its place"
        yield _step("duplicate", "no", winner.origin, text)
        return
    if isinstance(facts.judged.wish, Want):
        if (barred := _barred(facts, one)) is not None:
            yield _step("tools", "no", barred[1], barred[0])
        yield _connection(facts)


def _barred(facts: Facts, one: Resolved) -> tuple[str, Origin | None] | None:
    """Why agents see no tool of the server, and what decides; None where they may see some. A daemon knows more: which
    tools there are."""
    if one.spec is None:
        return None
    found = bars_all(tool_rules(policy_of(facts.resolved)), one.spec)
    if found is not None:
        return f"agents see none of its tools: {found[0]}", found[1]
    row = facts.row
    text = row.get("nothing_left", "") if row is not None else ""
    return (text, None) if text else None


def _configured(facts: Facts, one: Resolved) -> WhyStep:
    text = f"{one.origin} says what it is ({one.origin.scope})"
    if one.shadows:
        text += f"; it wins over {', '.join(map(str, one.shadows))}"
    return _step("configured", "yes", one.origin, text)


def _entry(one: Resolved) -> WhyStep:
    match one.outcome:
        case Problem(message=message, origin=origin):
            return _step("entry", "no", origin, message)
        case None:
            return _step("entry", "no", one.origin, "its url is empty, so it is not configured yet")
        case _:
            return _step("entry", "yes", one.origin, f"it is in order: {_what(one)}")


def _agents(facts: Facts, lacking: tuple[str, ...]) -> WhyStep:
    """Of an entry whose variables agents bring; `lacking` are those that it has from them alone."""
    come = "comes" if len(facts.brought) == 1 else "come"
    text = f"{', '.join(facts.brought)} {come} from each agent (clientEnv), and each value has an instance of its own"
    if not lacking:
        return _step("agents", "yes", None, text)
    if not facts.live:
        return _step("agents", "unknown", None, text)
    running = [one for one in facts.instances if one["brings"]]
    if not running:
        return _step("agents", "no", None, f"{text}; no agent that is attached has brought {', '.join(lacking)}")
    verdict = "yes" if any(one["state"] == "connected" for one in running) else "no"
    return _step("agents", verdict, None, text if verdict == "yes" else f"{text}; none of them is connected")


def _what(one: Resolved) -> str:
    transport = one.spec.transport if one.spec is not None else None
    match transport:
        case StdioSpec(shown=shown):
            return shlex.join(shown)
        case HttpSpec(shown=shown, ide=ide):
            return shown if ide is None else f"{shown}, {_editor(ide)}"
        case InProcessSpec():
            return "built in"
        case _:
            return "nothing"


def _editor(ide: Ide) -> str:
    """Whose server it is, where an editor's extension wrote the entry."""
    where = ", which runs in Windows" if ide.running_in_windows else ""
    return f"of the editor {printed(ide.name)}{where}" if ide.name else f"of an editor{where}"


def _policy(facts: Facts, one: Resolved, off: Off | None) -> WhyStep:
    verdict = facts.judged.verdict if facts.judged is not None else None
    if verdict is None:
        return _step("policy", "yes", None, "no policy is in force")
    if verdict.allowed:
        return _step("policy", "yes", verdict.origin, verdict.sentence)
    text = verdict.sentence + _locked(facts, verdict)
    if off is not None:  # asked for the sake of the person, of what is not expanded
        return _step("policy", "unasked", verdict.origin, f"were it on: {text}")
    return _step("policy", "no", verdict.origin, text)


def _locked(facts: Facts, verdict: Verdict) -> str:
    """What a person's own list of what is allowed does not change, where there is one."""
    policy = policy_of(facts.resolved)
    lock = policy.managed_only
    if lock is None or verdict.rule or policy.closed:
        return ""
    own = [document for document in documents_of(facts.resolved) if document.origin.scope is Scope.USER]
    lists = [one for document in own for one in read_policy(document).allowed or ()]
    return f"; {lists[0].origin if lists else 'a list of your own'} does not count, by {lock}"


def _approval(one: Resolved, state: Approval, wish: Want | Off | Broken) -> WhyStep:
    if state is Approval.APPROVED:
        return _step("approval", "yes", one.origin, "you have approved just this")
    return _step("approval", "no", one.origin, wish.detail if isinstance(wish, Off) else str(state))


def _connection(facts: Facts) -> WhyStep:
    row = facts.row
    if row is None:
        text = "no daemon was asked" if not facts.live else "the daemon has no such row"
        return _step("connection", "unknown", None, text)
    state = row["state"]
    error = row["last_error"]
    if state == "connected":
        tools = row["tools"]
        text = "connected" + (f", {tools} tools" if tools is not None else "") + _though(facts)
        # Of one that cannot be reached, or whose process is stopped, nobody knows it.
        known = row.get("layer", "") not in ("network", "process")
        return _step("connection", "yes" if known else "unknown", None, text)
    reason = row["reason"]
    if error is not None and not error.get("over") and error["message"] and error["message"] not in reason:
        reason = f"{reason}: {error['message']}" if reason else error["message"]
    text = f"{row['state_text']}: {reason}" if reason else row["state_text"]
    if "stale" in row:
        text += f"; {row['stale']}"
    if "sign_in" in row and row["sign_in"]["detail"] not in text:
        text += _credentials(facts)
    return _step("connection", "no", None, text)


def _though(facts: Facts) -> str:
    """What is to be said of it though it is connected."""
    row = facts.row
    if row is None or row["state"] != "connected":
        return ""
    found = [row["reason"], *map(_held_back, row.get("held_back", [])), *_unanswered(row), row.get("stale", "")]
    return "".join(f"; {text}" for text in found if text) + _credentials(facts)


def _held_back(one: CircuitStatus) -> str:
    where = f" in {one['workspace']}" if one["workspace"] else ""
    whose = one["client"] or "an agent"
    return f"{one['calls']} calls of {whose}{where} are held back, after {one['failures']} without an answer"


def _unanswered(row: ServerStatus) -> Iterator[str]:
    waiting = row.get("queued", 0)
    for one in row.get("unanswered", []):
        where = f" in {one['workspace']}" if one["workspace"] else ""
        who = f"{one['client'] or 'an agent'}{where} has not answered a question of it for {one['since']:.0f} s"
        yield f"{who}, and {waiting} {'call waits' if waiting == 1 else 'calls wait'}" if waiting else who


def _credentials(facts: Facts) -> str:
    """What stands between it and its credentials, though it may be connected."""
    need = facts.row.get("sign_in") if facts.row is not None else None
    if need is None or need["reason"] == "login_required":  # which is said by what to do about it
        return ""
    return f"; {need['detail']} ({need['reason']})"


def _state(facts: Facts, wish: Want | Off | Broken | None) -> str:
    if facts.one is not None and needs_an_agent(facts.one, facts.brought):
        states = [one["state"] for one in facts.instances if one["brings"]]
        return "connected" if "connected" in states else next(iter(states), "waits for an agent's variables")
    if facts.row is not None:
        return facts.row["state_text"]
    if facts.name in facts.twins:
        return "disabled (duplicate)"
    match wish:
        case Off(because=because):
            return f"disabled ({because})"
        case Broken():
            return "failed"
        case Want():
            return "may run"
        case None:
            return "not configured"


def _answer(facts: Facts, stop: WhyStep | None, last: WhyStep) -> str:
    name = printed(facts.name)
    if stop is None and last["step"] == "agents" and last["verdict"] == "yes":
        return f"{name} runs for agents that bring {', '.join(facts.brought)}"
    if stop is None:
        up = facts.row is not None and facts.row["state"] == "connected"
        if up and facts.row is not None and facts.row.get("layer") == "network":
            return f"{name} cannot be reached{_though(facts)}"
        return f"{name} runs{_though(facts)}" if up or last["verdict"] == "yes" else f"{name} may run; {last['text']}"
    pending = facts.row is not None and facts.row["state"] == "pending" and stop["step"] == "connection"
    return f"{name} {'does not run yet' if pending else 'does not run'}: {stop['text']}"


def _toolless(steps: list[WhyStep], stop: WhyStep | None) -> str:
    barred = [step["text"] for step in steps if step["step"] == "tools"]
    return f", but {barred[0]}" if barred and stop is None else ""


# --- what would change it ---------------------------------------------------------------------------------------------


def _next(facts: Facts, one: Resolved) -> Iterator[str]:
    """In the order of the steps: what stands in the way first, then what would stand in the way then."""
    name = printed(facts.name)
    alone = exclusive(facts.resolved.layers)
    if alone is not None and one.origin.scope is not Scope.ENTERPRISE:
        yield f"{ASK}: only {alone.path} says which servers there are"
        return
    outcome = one.outcome
    if isinstance(outcome, Problem):
        if lacking := needs_an_agent(one, facts.brought):
            yield f"start the agent with {', '.join(lacking)} set; `mcphub connect` hands on what clientEnv lists"
        yield from _mend(outcome)
        return
    if outcome is None:
        yield f"write its url in {one.origin}"
        return
    if isinstance(outcome, Off) and outcome.because == "person":
        yield _switch_on(one, name)
    verdict = facts.judged.verdict if facts.judged is not None else None
    if verdict is not None and not verdict.allowed:
        yield from _permit(facts, verdict)
    if facts.judged is not None and facts.judged.approval not in (None, Approval.APPROVED):
        yield f"look at what it runs and decide: mcphub approve {name}"
    if (winner := facts.twins.get(facts.name)) is not None:
        yield f"use {winner.name}; or, to have this one, remove that: mcphub remove {winner.name} ({winner.origin})"
        return
    if isinstance(outcome, ServerSpec) and facts.judged is not None and isinstance(facts.judged.wish, Want):
        if (barred := _barred(facts, one)) is not None:
            yield _give_tools(barred[1])
        yield from _connect(facts, one, name)


def _switch_on(one: Resolved, name: str) -> str:
    if isinstance(one.outcome, Off) and one.outcome.detail.startswith(SWITCH_UNKNOWN):
        return "repair that file, or move it away, which switches all servers on"
    raw = one.entry.raw if one.entry is not None else {}
    keys = [key for key, off in (("enabled", False), ("disabled", True)) if raw.get(key) is off]
    if one.entry is None or not keys or one.origin.scope in (Scope.USER, Scope.LOCAL):
        return f"switch it on: mcphub enable {name}"
    who = f"{ASK} to change" if one.origin.scope in OWN_SCOPES else "edit"
    return f"{who} {one.entry.place(keys[0])}"


def _mend(problem: Problem) -> Iterator[str]:
    if problem.missing:
        for variable in problem.missing:
            yield f"set the variable: mcphub env set {variable}"
        yield f"or write a default there: ${{{problem.missing[0]}:-...}}"
        return
    yield f"correct {problem.origin}; the daemon reads it again by itself"


def _permit(facts: Facts, verdict: Verdict) -> Iterator[str]:
    """Who can change what forbids, and where."""
    if verdict.origin is None:
        for document in documents_of(facts.resolved):
            for text in read_policy(document).closed:
                yield f"{'correct your own rules' if _own(document) else ASK}: {text}"
        return
    who = "edit" if verdict.origin.scope is Scope.USER else f"{ASK} to change"
    lists = "" if verdict.rule else ", which would have to name it"
    yield f"{who} {verdict.origin}{lists}"


def _give_tools(origin: Origin | None) -> str:
    """Who can change what takes the tools away, and where."""
    if origin is None:
        return "see which rules take its tools away: mcphub policy list"
    return f"{f'{ASK} to change' if origin.scope in OWN_SCOPES else 'edit'} {origin}"


def _own(document: PolicyDocument) -> bool:
    return document.origin.scope is Scope.USER


#: By how a server's credentials are had, see SignInStatus.
_SIGN_IN = {
    "browser": "sign in: mcphub login {name}",
    "idp_login": "sign in at the organisation, once for all servers: mcphub login {name}",
    "config": "correct `oauth` of its entry; docs/sign-in.md says what each reason means",
    "vault": "open the vault: mcphub vault unlock",
    "wait": "wait, it is tried again by itself; at once: mcphub reconnect {name}",
}


def _connect(facts: Facts, one: Resolved, name: str) -> Iterator[str]:
    row = facts.row
    if row is None:
        if not facts.live:
            yield "start the daemon: mcphub serve"
        return
    error = row["last_error"]
    if "sign_in" in row:
        yield _SIGN_IN[row["sign_in"]["how"]].format(name=name)
    match row["state"]:
        case "connected":
            if row["state_text"] == "connected (unreachable)":
                yield (
                    "see whether it runs, and what is on the way to it; it is asked again by itself, and "
                    f"`mcphub reconnect {name}` ends the calls that wait for it"
                )
            elif row.get("unanswered") and row.get("queued"):
                yield f"answer what it asks, in that agent; `mcphub reconnect {name}` ends the call that asks"
            elif row.get("layer") == "network":
                yield "join a network that leads to its host; the connection is looked at by itself then"
            elif row.get("layer") == "process":
                yield f"let its process go on: kill -CONT {row['pid']}; or start another: mcphub reconnect {name}"
        case "needs-auth" if "sign_in" in row:
            return
        case "pending" if row["reason"].endswith("when it is used"):
            yield f"call one of its tools, or start it now: mcphub reconnect {name}"
        case "pending" if row["state_text"] == "pending (idle)" and not one.workspace:
            yield "attach an agent; it is started then"
        case "pending" if row["state_text"] == "pending (idle)":
            yield f"attach an agent in {one.workspace}, or one below it; it is started then"
        case "pending":
            if error is not None and not error.get("over"):
                yield from filter(None, [error["remedy"]])
            yield f"wait; see how it goes: mcphub status {name} --watch"
        case _ if error is not None:
            yield from filter(None, [error["remedy"]])
            transport = one.spec.transport if one.spec is not None else None
            if isinstance(transport, HttpSpec) and transport.ide is not None and transport.ide.running_in_windows:
                yield (
                    "the editor runs in Windows: see that what it listens on can be reached from here, as with "
                    "networkingMode=mirrored in .wslconfig"
                )
            yield f"see what it wrote: mcphub logs {name}"
            yield f"try again: mcphub reconnect {name}"
        case _:
            yield f"try again: mcphub reconnect {name}"


def instance_row(
    facts: Facts,
    shown: ResolvedSet,
    rows: Mapping[InstanceKey, ServerStatus],
    agents: Mapping[int, str] | None = None,
) -> Facts:
    """The facts with the daemon's row of this server, `shown` being the set that its rows are made of; and where agents
    bring what it needs, with all of its instances. `agents` are names by number."""
    one = shown.servers.get(facts.name)
    key = None if one is None else instance_key(one)
    if one is None or key is None:
        return facts
    place: OriginStatus = origin_status(one.origin)
    found = [row for row in rows.values() if row["name"] == key.name and row["origin"] == place]
    # Where an agent or a directory has one of its own, another's is better than none.
    row = next((row for row in found if row["workspace"] == key.workspace), found[0] if found else None)
    of_all = tuple(instances(one, key, rows, agents or {})) if facts.brought else ()
    return msgspec.structs.replace(facts, row=rows.get(key, row), instances=of_all)
