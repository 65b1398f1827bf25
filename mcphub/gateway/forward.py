"""Owns one request of an agent about prompts, resources or completion while it is in flight.

It must not know sockets, nor which server is asked. What it sends on has the server's own names and URIs, what it
brings back the exposed ones; everything else keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.gateway.call import AgentCall
from mcphub.protocol import jsonrpc
from mcphub.protocol.caching import uncached
from mcphub.protocol.content import Rename, edit_result
from mcphub.protocol.envelope import NO_META, RequestMeta, hub_meta_member, request_meta
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import InstanceKey

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Forwarded(AgentCall, gc=False, eq=False):
    """One request in flight. `method` is the agent's; `rename` gives the exposed form of a URI of the server's."""

    server_key: InstanceKey = InstanceKey("", "")
    method: str = ""
    rename: Rename = str
    #: The server's own name, or URI, of what is asked about.
    original: str = ""
    #: It carries what was answered to questions, so that its result is for nobody else and no other time.
    retried: bool = False
    #: The params, where they may have to be sent again.
    params: dict[str, Raw] = {}

    @property
    def key(self) -> InstanceKey:
        return self.server_key

    @property
    def tool(self) -> str:
        return self.method

    @property
    def asked_for(self) -> str:
        return self.method

    @property
    def target(self) -> str:
        return self.original

    @property
    def read_only(self) -> bool:
        return True

    def kept(self, params: Mapping[str, Raw]) -> None:
        self.params = {name: Raw(bytes(value)) for name, value in params.items() if name != "_meta"}

    def _repeated(self, how: str) -> str:
        return ""  # an agent may ask for what changes as often as it likes

    def again(self, client: Client, more: bytes) -> None:
        if more:
            self.keeps = False  # as for calls of tools
        self.client = client
        self.go(params_for(client, self.params, self.meta, self.caller.offers, more))

    def go(self, params: bytes) -> None:
        """Send it; `params` are members without braces. Each way it is sent is this one."""
        if self.accounts is not None:
            self.accounts.sends(self, params)
        self.up_id = self.client.send_request(self, self.method, params)

    def shaped(self, parts: tuple[Data, ...]) -> tuple[Data, ...]:
        whole = edit_result(self.method, b"".join(parts), self.rename)
        if self.method == "resources/read" and self.meta.modern and self.client.era == "legacy":
            # A legacy server says nothing of caching; a modern agent must be told.
            whole = b"".join((bytes(whole)[:-1], b',"ttlMs":0,"cacheScope":"private"}'))
        elif self.retried and self.method == "resources/read":
            whole = uncached(bytes(whole))
        return (whole,)

    def error_data(self, data: Raw) -> bytes:
        """An error's data with the URI it may name."""
        if not data:
            return b""
        try:
            fields = _members(data)
            fields["uri"] = Raw(jsonrpc.quote(self.rename(msgspec.json.decode(fields["uri"], type=str))))
        except (msgspec.DecodeError, KeyError, RecursionError):
            return bytes(data)
        return msgspec.json.encode(fields)


def params_for(
    client: Client, params: Mapping[str, Raw], meta: RequestMeta, offers: bytes = b"", more: bytes = b""
) -> bytes:
    """The params of an upstream request as members without braces; hop keys of `_meta` are ours. `more` are members of
    a retry, with a leading comma."""
    body = b",".join([jsonrpc.quote(k) + b":" + bytes(v) for k, v in params.items() if k != "_meta"])
    modern = client.era == "modern"
    if meta is NO_META:
        tail = hub_meta_member(offers) if modern else b""
    else:
        tail = request_meta(modern, meta, client.next_id(), offers)
    tail = more + tail
    return body + tail if body else tail[1:]
