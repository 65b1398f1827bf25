"""Owns the handles by which modern agents have tasks of their servers: given, and asked about by `tasks/*`.

It must not follow a task, nor keep one: a handle has the server and its own id sealed in it, for one agent. What an
agent asks goes on to that server with the server's id, which over HTTP stands in `Mcp-Name` too (SEP-2663; bridging,
tasks).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from mcphub.channel import Data
from mcphub.connection.machine import Pending
from mcphub.connection.worker import Worker
from mcphub.gateway.agent import Agent
from mcphub.gateway.askable import Undeclared, read_capabilities, refuse_undeclared
from mcphub.gateway.awakening import Awakening
from mcphub.gateway.call import Caller
from mcphub.gateway.forward import Forwarded, params_for
from mcphub.gateway.own_answers import merged
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.gateway.rounds import principal_of, question_of, shown_to
from mcphub.gateway.route import starts_too_slowly, unavailable
from mcphub.protocol import jsonrpc, mrtr, tasks
from mcphub.protocol.content import Rename, edit_result
from mcphub.protocol.envelope import RequestMeta, error_data, traced
from mcphub.protocol.jsonrpc import EMPTY, Envelope, Raw
from mcphub.spec import InstanceKey

#: The error for an agent that did not declare what it asks for.
_NEEDS_CAPABILITY = -32021

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class Handled(Forwarded, gc=False, eq=False):
    """A request of an agent's about a task that it has this handle of."""

    handle: str = ""

    def answered(self, env: Envelope) -> None:
        if self.method == "tasks/get" and not env.error:
            try:
                whole, counters = memoryview(env.result), self.client.counters
                shown = shown_task(whole, self.handle, self.server, self.rename, self.meta, counters)
            except Undeclared as e:
                self.over()
                self.undeclared(e)
                return
            except (ValueError, RecursionError) as e:
                self.over()
                text = f"the server {self.server} tells of a task in a way that cannot be carried: {e}"
                self.error("unsupported_result", text)
                return
            env = Envelope(id=env.id, result=Raw(shown))
        super().answered(env)

    def shaped(self, parts: tuple[Data, ...]) -> tuple[Data, ...]:
        return parts


def shown_task(
    result: memoryview,
    handle: str,
    server: str,
    rename: Rename,
    meta: RequestMeta,
    counters: Counter[str] | None = None,
) -> bytes:
    """A server's task as its agent sees it: under its own id, with the URIs and questions that it may have. Raises
    ValueError (Undeclared is one), RecursionError."""
    fields = _members(tasks.shown(result, handle, "complete", counters))
    if "status" not in fields:
        raise tasks.NotATask("it has no status")
    if "result" in fields:
        fields["result"] = Raw(bytes(edit_result("tools/call", bytes(fields["result"]), rename)))
    if "inputRequests" in fields:
        asked = _members(fields["inputRequests"])
        refuse_undeclared(map(question_of, asked.values()), read_capabilities(meta.capabilities))
        fields["inputRequests"] = Raw(msgspec.json.encode({key: shown_to(server, one) for key, one in asked.items()}))
    return msgspec.json.encode(fields)


class TaskHandles:
    """Those of one hub. `seen(workspace, view)` gives the instances that agents see there, by name; `key` seals."""

    def __init__(
        self,
        key: bytes,
        workers: Mapping[InstanceKey, Worker],
        seen: Callable[[str, str], Mapping[str, InstanceKey]],
        awakening: Awakening,
        allowed: RootsAllowed,
        counters: Counter[str],
    ) -> None:
        self._key = key
        self._workers = workers
        self._seen = seen
        self._awakening = awakening
        self._allowed = allowed
        self._counters = counters
        self._loop = asyncio.get_running_loop()

    def given(self, caller: Caller, server: str, task: str) -> str:
        """The id under which this agent has a task of this server's."""
        return tasks.seal(self._key, principal_of(caller), server, task, secrets.token_bytes(tasks.NONCE_BYTES))

    def opened(self, agent: Agent, handle: str) -> tuple[InstanceKey, str]:
        """The instance, and its own id. Raises tasks.UnknownTask."""
        server, own = tasks.unseal(self._key, principal_of(agent), handle)
        key = self.instance(agent, server)
        if key is None:
            raise tasks.UnknownTask(f"Failed to find the task: there is no server {server} any more")
        return key, own

    def instance(self, agent: Agent, server: str) -> InstanceKey | None:
        """Which instance this agent has a server of."""
        return self._seen(agent.workspace, agent.view).get(server)

    def lacks(self, agent: Caller, mid: bytes, meta: RequestMeta, what: str) -> bool:
        """Whether this agent cannot have tasks, and was told so."""
        if meta.tasks:
            return False
        data = traced(error_data("undeclared_capability"), meta.trace)
        text = f"{what} is for agents that declare the extension io.modelcontextprotocol/tasks with the request"
        frame = jsonrpc.error_frame(mid, _NEEDS_CAPABILITY, text, b"{%b,%b" % (tasks.LACKING, data[1:]))
        agent.send(frame)
        return True

    def ask(self, agent: Agent, mid: bytes, method: str, raw: Raw, meta: RequestMeta) -> None:
        """Send one of tasks.METHODS on, or answer why not."""
        if self.lacks(agent, mid, meta, method):
            return
        try:
            params = _members(raw or b"{}")
            handle = _string(params["taskId"])
            key, own = self.opened(agent, handle)
        except tasks.UnknownTask as e:
            data = traced(error_data("unknown_task"), meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e), data))
            return
        except (msgspec.DecodeError, KeyError, RecursionError) as e:
            text = f"{method}: missing or wrong member: {e}"
            data = traced(error_data("invalid_params"), meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data))
            return
        worker = self._workers.get(key)
        client = worker.client if worker is not None else None
        if worker is None or client is None or client.over:
            self._unavailable(agent, mid, method, raw, meta, key)
            return
        if client.era != "modern":
            text = f"Failed to find the task: the server {key.name} has none any more"
            data = traced(error_data("unknown_task", key.name), meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data))
            return
        params["taskId"] = Raw(jsonrpc.quote(own))
        if method == "tasks/update":
            try:
                mrtr.check_responses(params.get("inputResponses", EMPTY))
            except ValueError as e:
                data = traced(error_data("invalid_params"), meta.trace)
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"{method}: {e}", data))
                return
            answers, refused = merged(params.get("inputResponses", EMPTY), {}, self._allowed, agent.workspace)
            self._counters["refused_roots"] += refused
            params["inputResponses"] = Raw(answers or b"{}")
        now, timeout, library = self._awakening.since or self._loop.time(), worker.spec.call_timeout, agent.library
        request = Handled(
            agent,
            client,
            mid,
            None,
            meta,
            now,
            now + timeout,
            timeout,
            server_key=key,
            method=method,
            rename=lambda uri: library.expose(key.name, uri),
            original=own,
            handle=handle,
        )
        agent.calls[mid] = request
        request.up_id = client.send_request(request, method, params_for(client, params, meta))

    def _unavailable(
        self, agent: Agent, mid: bytes, method: str, raw: Raw, meta: RequestMeta, key: InstanceKey
    ) -> None:
        worker, kept = self._workers.get(key), Raw(bytes(raw))

        def tell(text: str) -> None:
            data = traced(error_data("unavailable", key.name), meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, data))

        if worker is not None:
            late_text = starts_too_slowly(key.name, worker.spec.call_timeout)

            def again() -> None:
                self.ask(agent, mid, method, kept, meta)

            if self._awakening.hold(agent, mid, worker, again, lambda: tell(late_text), meta):
                return
        state = worker.state if worker is not None else None
        retry_in = state.retry_at - self._loop.time() if isinstance(state, Pending) else 0.0
        if worker is not None:
            self._awakening.met_failed(worker)
        tell(unavailable(key.name, state, retry_in))
