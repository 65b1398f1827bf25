"""Owns the Python client of the grid (`mcp`): in each era, with each server, every feature once.

It must not know mcphub, nor what is right: it prints what it saw, a JSON line {client, server, feature, got} for each.
Job (argv[1], JSON): {pairs: [{me, mode, it, url, prefix}], features: [name]}.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

#: Seconds for one feature.
LIMIT = 20.0


class Exchange:
    """One client with one server. `prefix` stands before the server's names."""

    def __init__(self, me: str, mode: str, it: str, url: str, prefix: str) -> None:
        self.me, self.it, self.prefix, self.mode = me, it, prefix, mode
        self.asked: str | None = None
        self.updated: dict[str, anyio.Event] = {}
        self.client = Client(
            url,
            mode=mode,
            cache=None,
            elicitation_callback=self.elicited,
            sampling_callback=self.sampled,
            message_handler=self.noticed,
        )

    async def elicited(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked = params.message
        return types.ElicitResult(action="accept", content={"colour": f"blue of {self.me}"})

    async def sampled(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content: Any = params.messages[0].content
        self.asked = content.text
        answer = types.TextContent(text=f"word of {self.me}")
        return types.CreateMessageResult(role="assistant", content=answer, model="none")

    async def noticed(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.setdefault(str(message.params.uri), anyio.Event()).set()

    async def call(self, tool: str, **how: Any) -> str:
        result = await self.client.call_tool(self.prefix + tool, {"text": self.me}, **how)
        [content] = result.content
        assert isinstance(content, types.TextContent)
        if result.is_error:
            raise RuntimeError(content.text)
        return content.text

    async def connect(self) -> Any:
        return {"version": self.client.protocol_version}

    async def list_tools(self) -> Any:
        names = [tool.name for tool in (await self.client.list_tools()).tools]
        own = [name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)]
        return {"tools": sorted(own)}

    async def call_tool(self) -> Any:
        return {"text": await self.call("echo")}

    async def note(self) -> str:
        """The URI under which this client's note of this server is listed, "" = it is not."""
        listed = [str(resource.uri) for resource in (await self.client.list_resources()).resources]
        return next((uri for uri in listed if self.it in uri and uri.endswith(self.me)), "")

    async def read(self, uri: str) -> types.TextResourceContents:
        [content] = (await self.client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents)
        return content

    async def resources(self) -> Any:
        uri = await self.note()
        content = await self.read(uri)
        return {"listed": bool(uri), "same uri": str(content.uri) == uri, "text": content.text}

    async def prompts(self) -> Any:
        name = self.prefix + "greet"
        listed = [prompt.name for prompt in (await self.client.list_prompts()).prompts]
        [message] = (await self.client.get_prompt(name, {"name": self.me})).messages
        assert isinstance(message.content, types.TextContent)
        return {"listed": name in listed, "text": message.content.text}

    async def completion(self) -> Any:
        ref = types.PromptReference(name=self.prefix + "greet")
        result = await self.client.complete(ref, {"name": "name", "value": self.me})
        return {"values": list(result.completion.values)}

    async def question(self, tool: str) -> Any:
        self.asked = None
        text = await self.call(tool)
        return {"text": text} if self.asked is None else {"asked": self.asked, "text": text}

    async def elicitation(self) -> Any:
        return await self.question("ask")

    async def sampling(self) -> Any:
        return await self.question("sample")

    async def progress(self) -> Any:
        steps: list[Any] = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append([progress, total])

        return {"text": await self.call("steps", progress_callback=step), "progress": steps}

    async def cancel(self) -> Any:
        with anyio.CancelScope() as scope:

            async def begun(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await self.call("hang", progress_callback=begun)
        return {"cancelled": scope.cancelled_caught}

    async def subscribe(self) -> Any:
        uri = await self.note()
        if self.mode == "legacy":
            told = self.updated.setdefault(uri, anyio.Event())
            await self.client.subscribe_resource(uri)
            await self.call("touch")
            await told.wait()
            content = await self.read(uri)
            await self.client.unsubscribe_resource(uri)
            return {"updated": True, "text": content.text}
        async with self.client.listen(resource_subscriptions=[uri]) as events:
            await self.call("touch")
            event: Any = await anext(events)
        return {"updated": str(event.uri) == uri, "text": (await self.read(uri)).text}

    async def run(self, features: list[str]) -> None:
        does: dict[str, Callable[[], Awaitable[Any]]] = {
            "connect": self.connect,
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
            "resources": self.resources,
            "prompts": self.prompts,
            "completion": self.completion,
            "elicitation": self.elicitation,
            "sampling": self.sampling,
            "progress": self.progress,
            "cancel": self.cancel,
            "subscribe": self.subscribe,
        }
        try:
            async with self.client:
                for feature in features:
                    self.tell(feature, await self.attempt(does[feature]))
        except Exception as e:
            self.tell("connect", {"error": {"code": type(e).__name__, "message": str(e)}})

    async def attempt(self, do: Callable[[], Awaitable[Any]]) -> Any:
        try:
            with anyio.fail_after(LIMIT):
                return await do()
        except MCPError as e:
            return {"error": {"code": e.error.code, "message": e.error.message}}
        except Exception as e:
            return {"error": {"code": type(e).__name__, "message": str(e)}}

    def tell(self, feature: str, got: Any) -> None:
        print(json.dumps({"client": self.me, "server": self.it, "feature": feature, "got": got}), flush=True)


async def main() -> None:
    job = json.loads(sys.argv[1])
    async with anyio.create_task_group() as tasks:
        for pair in job["pairs"]:
            tasks.start_soon(Exchange(**pair).run, job["features"])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main)
