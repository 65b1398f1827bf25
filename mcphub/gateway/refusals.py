"""Owns how mcphub turns a request down before any server has seen it: the shape of that, and what programs are told.

It must not decide that it is turned down, nor why. Wrong messages get a JSON-RPC error, calls that a model could
correct or wait for a tool result with `isError` (MCP spec, server/tools, error handling).
"""

from __future__ import annotations

from mcphub.channel import Data
from mcphub.gateway.call import Caller, who, with_sentence
from mcphub.gateway.call_lines import CallLines
from mcphub.gateway.repeats import Repeats
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import RequestMeta, error_data
from mcphub.protocol.serving import tool_error

#: What goes with errors about messages that are wrong by themselves.
BAD_REQUEST = error_data("invalid_request")
BAD_PARAMS = error_data("invalid_params")
NO_METHOD = error_data("unknown_method")
TOO_MUCH = error_data("overloaded")


class Refusals:
    """Those of calls. `repeats` remembers them, for agents that make the same one again and again."""

    def __init__(self, repeats: Repeats, lines: CallLines) -> None:
        self._repeats = repeats
        self._lines = lines

    def result(
        self,
        agent: Caller,
        mid: bytes,
        meta: RequestMeta,
        kind: str,
        text: str,
        *,
        server: str = "",
        tool: str = "",
        arguments: Data | None = None,
        **more: object,
    ) -> None:
        """Answer a call by a tool result with `isError`; `more` as in `envelope.error_data`. `arguments` are those of
        the call, where its being turned down again is worth a word."""
        text, data = self._told(agent, meta, kind, text, server, tool, arguments, more)
        agent.send(jsonrpc.result_frame(mid, tool_error(text, meta.modern, data)))

    def error(
        self,
        agent: Caller,
        mid: bytes,
        meta: RequestMeta,
        code: int,
        kind: str,
        text: str,
        *,
        server: str = "",
        tool: str = "",
        arguments: Data | None = None,
        **more: object,
    ) -> None:
        """The same by a JSON-RPC error."""
        text, data = self._told(agent, meta, kind, text, server, tool, arguments, more)
        agent.send(jsonrpc.error_frame(mid, code, text, data))

    def _told(
        self,
        agent: Caller,
        meta: RequestMeta,
        kind: str,
        text: str,
        server: str,
        tool: str,
        arguments: Data | None,
        more: dict[str, object],
    ) -> tuple[str, bytes]:
        self._lines.refused(server, tool, kind, agent.client, meta.trace)
        if arguments is not None:
            again = self._repeats.failed(who(agent), f"{server} {tool}", arguments, kind)
            text = with_sentence(text, again)
        if tool:
            more = {"tool": tool, **more}
        if meta.trace:
            more["traceId"] = meta.trace
        return text, error_data(kind, server, **more)
