"""Owns what agents ask about prompts, resources and completion: which server answers, under which of its names.

It must not know sockets. A name or URI leads to a server by the view's library; the request goes on with the server's
own name or URI, and what comes back is `forward.Forwarded`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time_ns

import msgspec

from mcphub.catalog.library import PROMPTS, RESOURCES, Lead, Library
from mcphub.channel import Data
from mcphub.connection import capability_sets
from mcphub.connection.machine import Pending
from mcphub.connection.worker import Worker
from mcphub.gateway import url_steps
from mcphub.gateway.accounts import Accounts
from mcphub.gateway.again import MAX_KEPT
from mcphub.gateway.agent import Agent
from mcphub.gateway.awakening import Awakening
from mcphub.gateway.call import AgentCall
from mcphub.gateway.forward import Forwarded, params_for
from mcphub.gateway.lane import ALONE
from mcphub.gateway.lanes import Lanes
from mcphub.gateway.legacy_rounds import Asking
from mcphub.gateway.pages import Pages
from mcphub.gateway.refusals import BAD_PARAMS, NO_METHOD
from mcphub.gateway.retries import Retries
from mcphub.gateway.rounds import Rounds, principal_of
from mcphub.gateway.route import starts_too_slowly, unavailable, why_unavailable
from mcphub.gateway.sight import Sight
from mcphub.gateway.turns import Turns
from mcphub.gateway.unlisted import whose_name, whose_uri
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.envelope import RequestMeta, add_to_data, error_data, traced
from mcphub.protocol.jsonrpc import EMPTY, Raw
from mcphub.protocol.versions import MODERN
from mcphub.spec import InstanceKey

METHODS = frozenset({"prompts/get", "resources/read", "completion/complete"})
#: `context` in completion exists from this version on.
CONTEXT_SINCE = "2025-06-18"

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class Nowhere(ValueError):
    """A name or URI that leads to no server, or to several; the message is for the agent. `uri` "" = a name."""

    def __init__(self, message: str, uri: str = "", kind: str = "unknown_resource", name: str = "") -> None:
        """`name`: what is not known, where a server that has not listed yet may have it."""
        super().__init__(message)
        self.uri = uri
        self.kind = kind
        self.name = name


def aim(library: Library, method: str, params: dict[str, Raw]) -> tuple[Lead, dict[str, Raw]]:
    """Where a request goes, and its params with the server's own name or URI. Raises Nowhere, DecodeError, KeyError."""
    out = dict(params)
    if method == "prompts/get":
        lead = _prompt(library, _string(params["name"]))
        out["name"] = Raw(jsonrpc.quote(lead.original))
        return lead, out
    if method == "resources/read":
        lead = _resource(library, _string(params["uri"]))
        out["uri"] = Raw(jsonrpc.quote(lead.original))
        return lead, out
    ref = _members(params["ref"])
    kind = _string(ref["type"])
    if kind == "ref/prompt":
        lead = _prompt(library, _string(ref["name"]))
        ref["name"] = Raw(jsonrpc.quote(lead.original))
    elif kind == "ref/resource":
        lead = _resource(library, _string(ref["uri"]))
        ref["uri"] = Raw(jsonrpc.quote(lead.original))
    else:
        raise Nowhere(f"unknown reference type {kind[:64]!r}", kind="invalid_params")
    out["ref"] = Raw(msgspec.json.encode(ref))
    return lead, out


def _prompt(library: Library, name: str) -> Lead:
    lead = library.prompts.get(name)
    if lead is None:
        raise Nowhere(f"unknown prompt {name[:128]!r}: prompts/list has the names", kind="unknown_prompt", name=name)
    return lead


def _resource(library: Library, uri: str) -> Lead:
    leads = library.find(uri)
    if len(leads) == 1:
        return leads[0]
    if not leads:
        raise Nowhere(f"resource not found: {uri[:256]}", uri, name=uri)
    choices = ", ".join(library.expose(lead.key.name, lead.original) for lead in leads)
    raise Nowhere(f"several servers have this resource; choose one of {choices[:1000]}", uri)


class Reading:
    """Sends these requests on. `workers` is the supervisor's table."""

    def __init__(
        self,
        workers: Mapping[InstanceKey, Worker],
        sight: Sight,
        rounds: Rounds,
        turns: Turns,
        awakening: Awakening,
        retries: Retries,
        pages: Pages,
        accounts: Accounts,
        lanes: Lanes,
    ) -> None:
        self._lanes = lanes
        self._accounts = accounts
        self._retries = retries
        self._pages = pages
        self._workers = workers
        self._sight = sight
        self._rounds = rounds
        self._turns = turns
        self._awakening = awakening
        self._loop = asyncio.get_running_loop()

    def rounds_of(
        self, call: AgentCall, method: str, target: str, arguments: Data, responses: Raw, state: mrtr.State | None
    ) -> bytes:
        """Let this call have rounds; returns what a retry carries, with a leading comma."""
        call.round = mrtr.Round(principal_of(call.caller), call.server, method, target, bytes(arguments))
        return self._rounds.retry(responses, state, call.caller.workspace)

    def ask(self, agent: Agent, mid: bytes, method: str, raw: Raw, meta: RequestMeta) -> None:
        """Send one request on, or answer why not, now or when its server is there."""
        library = agent.library
        try:
            lead, params = aim(library, method, _members(raw or b"{}"))
        except Nowhere as e:
            if e.name and (worker := self._owner(agent, e)) is not None:
                if worker.unlisted:
                    self._unavailable(agent, mid, method, raw, meta, worker.key)
                    return
                list_of, again = RESOURCES if e.uri else PROMPTS, self._again(agent, mid, method, raw, meta)
                if self._awakening.hold_for_list(agent, mid, worker, list_of, again, meta):
                    return
            data = add_to_data(msgspec.json.encode({"uri": e.uri}) if e.uri else b"", error_data(e.kind))
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e), traced(data, meta.trace)))
            return
        except (msgspec.DecodeError, KeyError, RecursionError) as e:
            text = f"{method}: missing or wrong member: {e}"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, traced(BAD_PARAMS, meta.trace)))
            return
        worker = self._workers.get(lead.key)
        client = worker.client if worker is not None else None
        server = lead.key.name
        sealed = params.pop("requestState", EMPTY) if meta.modern and method in mrtr.METHODS else EMPTY
        brought: mrtr.State | None = None
        if sealed:
            arguments = bytes(params.get("arguments", EMPTY))
            of = mrtr.Round(principal_of(agent), server, method, lead.original, arguments)
            brought = self._retries.goes_on(agent, mid, meta, of, params.get("inputResponses", EMPTY), sealed)
            if brought is None:
                return
        if worker is None or client is None or client.over:
            self._unavailable(agent, mid, method, raw, meta, lead.key)
            return
        if worker.sessions is not None:
            declares = capability_sets.declared_by(meta.capabilities) if meta.modern else agent.declares
            client = worker.sessions.client_for(client, meta.modern, declares)
        if method == "completion/complete":
            if worker.facts is None or "completions" not in worker.facts.capabilities:
                text = f"Method not found: the server {server} offers no completion"
                data = traced(NO_METHOD, meta.trace)
                agent.send(jsonrpc.error_frame(mid, jsonrpc.METHOD_NOT_FOUND, text, data))
                return
            if client.version < CONTEXT_SINCE and client.version not in MODERN:
                params.pop("context", None)
        now, timeout = self._awakening.since or self._loop.time(), worker.spec.call_timeout
        request = Forwarded(
            agent,
            client,
            mid,
            None,
            meta,
            now,
            now + timeout,
            timeout,
            server_key=lead.key,
            method=method,
            rename=lambda uri: library.expose(server, uri),
            original=lead.original,
        )
        if meta.modern:
            request.rounds = self._rounds
            request.arguments = bytes(params.get("arguments", EMPTY))
            request.asking = Asking(tries=brought.tries) if brought is not None and brought.tries else None
        elif client.era == "modern" and method in mrtr.METHODS:
            request.kept(params)
        if method in mrtr.METHODS and client.era == "modern" and meta.modern:
            responses = params.pop("inputResponses", EMPTY)
            try:
                mrtr.check_responses(responses)
            except ValueError as e:
                data = traced(BAD_PARAMS, meta.trace)
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"{method}: {e}", data))
                return
            more = self.rounds_of(request, method, lead.original, request.arguments, responses, brought)
            if more:
                request.retried = True
                params |= _members(b"{" + more[1:] + b"}")
        elif meta.modern and url_steps.declined(params.pop("inputResponses", EMPTY)):
            data = traced(error_data("declined", server), meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, url_steps.not_wanted(server), data))
            return
        request.accounts = self._accounts
        if (task := meta.budget) is not None and task.deadline is not None:
            left = (task.deadline - time_ns() / 1e6) / 1000
            if left <= 0:
                text = f"{method} was not sent to the server {server}: the deadline of the task {task.id!r} has passed"
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, request.told("task_budget")))
                return
            request.until = self._loop.time() + left
            request.deadline = min(request.deadline, request.until)
        if brought is None and sum([len(memoryview(value)) for value in params.values()]) <= MAX_KEPT:
            request.kept(params)
            request.keeps = True
        circuits = self._accounts.circuits
        if circuits.known and (circuit := circuits.stops(request)) is not None:
            text, wait = circuits.refusal(request, circuit)
            data = request.told("circuit_open", retryAfterMs=wait)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, data))
            return
        agent.calls[mid] = request
        pages = brought.pages if brought is not None else ()
        lanes = self._lanes
        many = lanes.only is not agent or worker.spec.allowance is not None or len(agent.calls) > ALONE
        size = sum([len(memoryview(value)) for value in params.values()]) if many else 0
        if many and lanes.hold(agent, request, worker, size):
            kept = {name: value.copy() for name, value in params.items()}
            lanes.later(request, partial(self._later, request, kept, pages))
            return
        if pages or lead.key in self._turns.asked:
            self._later(request, {name: value.copy() for name, value in params.items()}, pages)
            return
        request.go(params_for(client, params, meta, agent.offers))

    def _owner(self, agent: Agent, nowhere: Nowhere) -> Worker | None:
        """The server that would have what is not known."""
        seen = self._sight.seen(agent.workspace, agent.view)
        key = (whose_uri if nowhere.uri else whose_name)(seen, agent.view, nowhere.name)
        return self._workers.get(key) if key is not None else None

    def _again(self, agent: Agent, mid: bytes, method: str, raw: Raw, meta: RequestMeta) -> Callable[[], None]:
        kept = Raw(bytes(raw))

        def again() -> None:
            agent.library = self._sight.both(agent.workspace, agent.view)[1]  # over HTTP nobody else renews it
            self.ask(agent, mid, method, kept, meta)

        return again

    def _unavailable(
        self, agent: Agent, mid: bytes, method: str, raw: Raw, meta: RequestMeta, key: InstanceKey
    ) -> None:
        """Its server is not there: the request waits for it, or is told so."""
        worker, server = self._workers.get(key), key.name
        if worker is not None:
            limit = worker.spec.call_timeout

            def late() -> None:
                text, data = starts_too_slowly(server, limit), traced(error_data("unavailable", server), meta.trace)
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, data))

            again = self._again(agent, mid, method, raw, meta)
            if self._awakening.hold(agent, mid, worker, again, late, meta):
                return
        state = worker.state if worker is not None else None
        retry_in = state.retry_at - self._loop.time() if isinstance(state, Pending) else 0.0
        text = unavailable(server, state, retry_in)
        if worker is not None:
            self._awakening.met_failed(worker)
        kind, facts = why_unavailable(state, retry_in)
        if meta.trace:
            facts["traceId"] = meta.trace
        agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, error_data(kind, server, **facts)))

    def _later(self, request: Forwarded, params: dict[str, Raw], pages: Sequence[str]) -> None:
        """Send it when its pages are done, and it is its turn."""

        size = sum([len(memoryview(value)) for value in params.values()])

        def send() -> None:
            client = request.client
            request.go(params_for(client, params, request.meta, request.caller.offers))

        def turn() -> None:
            if pages:
                request.run_on(self._loop.time())
            if request.client.over:
                request.not_sent("lost", "the connection was lost while it waited for a page to be done")
            elif request.key not in self._turns.asked or self._turns.take(request, send, size):
                send()

        if not pages or not self._pages.wait(request, pages, turn):
            turn()
