"""Owns a scripted server that has prompts, resources and templates too, and agents that can be asked.

It must not know what is tested.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mcphub.channel import Data
from mcphub.sessions.http_answer import Answer
from mcphub.spec import ServerSpec
from tests.gateway.bench import META, Agent, Bench, Message, Server

ALL: Message = {"elicitation": {}, "sampling": {}, "roots": {}}
#: What a modern agent says of itself when it can be asked.
CAPABLE: Message = {META + "clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}}}
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}


class Shelves(Server):
    """Everything that it is asked beside the lists is kept until the test answers it."""

    def __init__(
        self,
        name: str,
        *,
        era: str = "legacy",
        prompts: tuple[str, ...] = ("p",),
        resources: tuple[str, ...] = ("x:1",),
        templates: tuple[str, ...] = (),
        offers: Message | None = None,
        sampling: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(name, era=era, **more)
        self.may_sample = sampling
        #: Whether it answers subscriptions by itself.
        self.takes = True
        every: Message = {"prompts": {}, "resources": {"subscribe": True}, "completions": {}}
        self._capabilities = {**self._capabilities, **(every if offers is None else offers)}
        self._lists: dict[str, Message] = {
            "prompts/list": {"prompts": [{"name": name} for name in prompts]},
            "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in resources]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": t, "name": t} for t in templates]},
        }

    @property
    def spec(self) -> ServerSpec:
        return replace(super().spec, sampling=self.may_sample)

    def _answer(self, message: Message) -> None:
        method = message.get("method", "")
        done = {"resultType": "complete"} if self._era == "modern" else {}
        if method in self._lists:
            self.result(message["id"], {**done, **self._lists[method]})
        elif method == "resources/unsubscribe" or (method == "resources/subscribe" and self.takes):
            self.result(message["id"], {})
        elif method == "subscriptions/listen" and self.takes:
            self.acknowledge(message)
        elif "method" in message:
            super()._answer(message)

    def acknowledge(self, request: Message) -> None:
        told = {"notifications": request["params"]["notifications"], "_meta": {META + "subscriptionId": request["id"]}}
        self.notify("notifications/subscriptions/acknowledged", told)

    def answer(self, request: Message, **result: Any) -> None:
        done = {"resultType": "complete"} if self._era == "modern" else {}
        self.result(request["id"], {**done, **result})

    def refuse(self, request: Message, code: int, message: str, **data: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message, "data": data}})

    def ask(self, method: str, params: Any = None, *, id: Any = "q") -> None:
        self.say({"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})})

    def replies(self, id: Any = "q") -> list[Message]:
        """What it got as answers to its question."""
        return [m for m in self.messages if "method" not in m and m["id"] == id]


class Sent(Answer):
    """An answer that keeps what is written."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def send(self, *parts: Data) -> None:
        self.got.append(b"".join(parts))


def legacy(bench: Bench, capabilities: Any = None, version: str = "2025-11-25") -> Agent:
    """A legacy agent that declared this."""
    agent = bench.agent()
    declared = ALL if capabilities is None else capabilities
    agent.one("initialize", {"protocolVersion": version, "capabilities": declared}, id="init")
    return agent


def patient(bench: Bench, server: Server, seconds: float) -> None:
    """From now on its entry says that a person has so long for an answer."""
    worker = bench.worker(server)
    worker.spec = replace(worker.spec, input_timeout=seconds)


def asked(agent: Agent, method: str = "elicitation/create") -> Message:
    """The one question that it got."""
    [question] = agent.of(method)
    return question


async def restarted(bench: Bench, server: Server) -> None:
    """The server is lost, and there again."""
    before = bench.worker(server).client
    server.lose("gone")
    await bench.until(lambda: bench.worker(server).client not in (None, before))


def reply(agent: Agent, question: Message, result: Any = None, *, error: Any = None) -> None:
    body = {"result": result} if error is None else {"error": error}
    agent.write({"jsonrpc": "2.0", "id": question["id"], **body})
