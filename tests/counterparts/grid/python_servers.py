"""Owns the Python servers of the grid (`mcp`), each at a port of its own; both eras are spoken at each.

It must not know mcphub. Job (argv[1], JSON): {servers: [name], clients: [name]}. The first line it prints is
{"urls": {name: url}}, each further one {server, feature, client}: what a client did there.
"""

from __future__ import annotations

import json
import socket
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
TOOLS = ("echo", "ask", "sample", "steps", "hang", "touch")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
COLOUR: dict[str, Any] = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


def say(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


class Peer:
    """One server: its notes, who watches them, and what it tells of its clients."""

    def __init__(self, name: str, clients: Sequence[str]) -> None:
        self.name = name
        self.notes = dict.fromkeys(clients, 0)
        self.bus = InMemorySubscriptionBus()
        self.watching: dict[str, list[Any]] = {}

    def server(self) -> Server[Any]:
        return Server(
            self.name,
            version="1",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_read_resource=self.read_resource,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_completion=self.complete,
        )

    def tell(self, feature: str, client: str) -> None:
        print(json.dumps({"server": self.name, "feature": feature, "client": client}), flush=True)

    def uri(self, client: str) -> str:
        return f"grid://{self.name}/{client}"

    async def list_tools(self, context: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=TEXT) for name in TOOLS])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        me = str((params.arguments or {})["text"])
        if params.name == "echo":
            self.tell("tools/call", me)
            era = "modern" if context.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"
            return say(f"{self.name} heard {me} in the {era} era")
        if params.name == "steps":
            for step in (1, 2, 3):
                await context.session.report_progress(step, 3)
            self.tell("progress", me)
            return say("three steps")
        if params.name == "hang":
            await self.hang(context, me)
        if params.name == "touch":
            await self.touch(me)
            return say("touched")
        return await self.ask(context, params, me)

    async def hang(self, context: Context, me: str) -> None:
        """Ends by being cancelled only."""
        await context.session.report_progress(1, 2)
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.tell("cancel", me)
            raise

    async def touch(self, me: str) -> None:
        """Changes a note; who watches it is told in the way of its era."""
        self.notes[me] += 1
        uri = self.uri(me)
        self.tell("subscribe", me)
        await self.bus.publish(ResourceUpdated(uri=uri))
        for session in self.watching.get(uri, []):
            await session.send_resource_updated(uri)

    async def ask(
        self, context: Context, params: types.CallToolRequestParams, me: str
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Asks the caller's person or model, in the way of its era."""
        question = self.question(params.name, me)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer: Any = (params.input_responses or {}).get("question")
            if answer is None:
                return types.InputRequiredResult(input_requests={"question": question}, request_state=me)
        elif isinstance(question, types.ElicitRequest):
            assert isinstance(question.params, types.ElicitRequestFormParams)
            form = question.params
            answer = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
        else:
            answer = await context.session.create_message(
                question.params.messages,
                max_tokens=question.params.max_tokens,
                related_request_id=context.request_id,
            )
        if isinstance(answer, types.ElicitResult):
            said = str((answer.content or {}).get("colour", answer.action))
            if answer.action == "accept":
                self.tell("elicitation", me)
            return say(f"{me} said {said}")
        self.tell("sampling", me)
        return say(f"the model of {me} said {answer.content.text}")

    def question(self, tool: str, me: str) -> types.ElicitRequest | types.CreateMessageRequest:
        if tool == "ask":
            form = types.ElicitRequestFormParams(message=f"Which colour, {me}?", requested_schema=COLOUR)
            return types.ElicitRequest(params=form)
        if tool == "sample":
            message = types.SamplingMessage(role="user", content=types.TextContent(text=f"A word for {me}"))
            return types.CreateMessageRequest(
                params=types.CreateMessageRequestParams(messages=[message], max_tokens=20)
            )
        raise MCPError(types.INVALID_PARAMS, f"no such tool: {tool}")

    async def list_resources(self, context: Context, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[types.Resource(uri=self.uri(client), name=client) for client in self.notes]
        )

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        me = uri.rpartition("/")[2]
        if me not in self.notes:
            raise MCPError(types.INVALID_PARAMS, "no such note", {"uri": uri})
        self.tell("resources", me)
        note = types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"note {self.notes[me]} of {me}")
        return types.ReadResourceResult(contents=[note])

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.watching.setdefault(str(params.uri), []).append(context.session)
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.watching.pop(str(params.uri), None)
        return types.EmptyResult()

    async def list_prompts(self, context: Context, params: Any) -> types.ListPromptsResult:
        name = types.PromptArgument(name="name", required=True)
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[name])])

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        me = (params.arguments or {})["name"]
        self.tell("prompts", me)
        content = types.TextContent(text=f"Hello {me}, from {self.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        me = params.argument.value
        assert isinstance(params.ref, types.PromptReference)
        if params.ref.name == "greet" and params.argument.name == "name":
            self.tell("completion", me)
        return types.CompleteResult(completion=types.Completion(values=[f"{me}-1", f"{me}-2"]))


async def main() -> None:
    job = json.loads(sys.argv[1])
    urls: dict[str, str] = {}
    async with anyio.create_task_group() as tasks:
        for name in job["servers"]:
            app = Peer(name, job["clients"]).server().streamable_http_app()
            listener = socket.create_server(("127.0.0.1", 0))
            # asyncio does so by itself only where it made the socket; without it every answer waits 40 ms for an ACK.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            urls[name] = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            # httptools leaves the blanks behind a header's value, which then is not what the body says.
            config = uvicorn.Config(app, http="h11", ws="none", log_level="warning", timeout_graceful_shutdown=1)
            tasks.start_soon(uvicorn.Server(config).serve, [listener])
        print(json.dumps({"urls": urls}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main)
