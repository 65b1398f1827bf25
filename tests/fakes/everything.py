"""Owns a server that offers one of everything, by the names that the official conformance suite asks for.

It must not know mcphub: it runs on the official SDK, `--http PORT` (0 = any free one; both eras at one address) or
`--stdio`, and what it needs of its caller it asks in the way of the caller's era.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import secrets
import socket
import struct
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

import anyio
import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

NAME = "everything"
Context = ServerRequestContext[Any, Any]
Schema = dict[str, Any]
#: A question to whoever called, as it stands in an `input_required` result.
Question = types.CreateMessageRequest | types.ListRootsRequest | types.ElicitRequest
Answer = types.InputResponse
Result = TypeVar("Result")

#: One red pixel, and a tenth of a second of silence: the smallest files that are what they say.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SAMPLES = b"\x80" * 800
#: RIFF, with `fmt `: PCM, 1 channel, 8000 Hz, 8000 bytes/s, 1 byte a sample of 8 bits
WAV = base64.b64encode(
    struct.pack("<4sI8sIHHIIHH", b"RIFF", 36 + len(SAMPLES), b"WAVEfmt ", 16, 1, 1, 8000, 8000, 1, 8)
    + struct.pack("<4sI", b"data", len(SAMPLES))
    + SAMPLES
).decode()

#: Milliseconds after which a client comes back for the rest of a stream that was closed in mid-call.
RETRY = 200


# -- what is served


class NeedsInput(Exception):
    """Ends a round of the modern era: the result says what to answer before the call is sent again."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True, slots=True)
class Call:
    """One `tools/call` or `prompts/get`: its arguments and the ways back to its caller."""

    context: Context
    arguments: Mapping[str, Any]
    answers: Mapping[str, Answer]
    #: what `ask` was given as `state` in the round before, "" = first round
    state: str
    everything: Everything

    @property
    def modern(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    def declared(self, capability: str) -> bool:
        """Whether the caller declared `sampling`, `elicitation` or `roots`."""
        return getattr(self.context.session.client_capabilities, capability, None) is not None

    async def ask(self, questions: Mapping[str, Question], state: str | None = None) -> Mapping[str, Answer]:
        """An answer to each question: by requests to a legacy caller, by a round of its own to a modern one.

        Raises NeedsInput until a modern caller has answered all of them.
        """
        if not self.modern:
            found: dict[str, Answer] = {}

            async def one(key: str, question: Question) -> None:
                found[key] = await self._request(question)

            try:
                async with anyio.create_task_group() as tasks:
                    for key, question in questions.items():
                        tasks.start_soon(one, key, question)
            except* Exception as group:
                raise group.exceptions[0] from None
            return found
        if any(key not in self.answers for key in questions):
            raise NeedsInput(types.InputRequiredResult(input_requests=dict(questions), request_state=state))
        return self.answers

    async def _request(self, question: Question) -> Answer:
        session, related = self.context.session, self.context.request_id
        if isinstance(question, types.CreateMessageRequest):
            messages, most = question.params.messages, question.params.max_tokens
            return await session.create_message(messages, max_tokens=most, related_request_id=related)
        if isinstance(question, types.ElicitRequest):
            assert isinstance(question.params, types.ElicitRequestFormParams)
            return await session.elicit_form(question.params.message, question.params.requested_schema, related)
        return await session.list_roots()

    async def log(self, text: str) -> None:
        await self.context.session.send_log_message("info", text, related_request_id=self.context.request_id)


ToolAnswer = types.CallToolResult
RunTool = Callable[[Call], Awaitable[ToolAnswer]]
RunPrompt = Callable[[Call], Awaitable[types.GetPromptResult]]
TOOLS: dict[str, tuple[types.Tool, RunTool]] = {}
PROMPTS: dict[str, tuple[types.Prompt, RunPrompt]] = {}


def tool(description: str, schema: Schema | None = None) -> Callable[[RunTool], RunTool]:
    """Offers a function as the tool of its name. Without a schema it takes no arguments."""

    def offer(run: RunTool) -> RunTool:
        name = run.__name__
        shape = schema or {"type": "object", "properties": {}}
        TOOLS[name] = (types.Tool(name=name, description=description, input_schema=shape), run)
        return run

    return offer


def prompt(description: str, **arguments: str) -> Callable[[RunPrompt], RunPrompt]:
    """Offers a function as the prompt of its name; all of its arguments (name to description) are required."""

    def offer(run: RunPrompt) -> RunPrompt:
        name = run.__name__
        known = [types.PromptArgument(name=key, description=said, required=True) for key, said in arguments.items()]
        PROMPTS[name] = (types.Prompt(name=name, description=description, arguments=known or None), run)
        return run

    return offer


def properties(required: tuple[str, ...] = (), /, **shapes: Schema) -> Schema:
    """An object's schema."""
    return {"type": "object", "properties": shapes, **({"required": list(required)} if required else {})}


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def says(*blocks: types.ContentBlock | str) -> ToolAnswer:
    """A tool's result; plain words are text blocks."""
    return ToolAnswer(content=[text(block) if isinstance(block, str) else block for block in blocks])


def image() -> types.ImageContent:
    return types.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, words: str, kind: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=kind, text=words))


def form(message: str, schema: Schema) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str, most: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(words))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=most))


def named(answer: Answer, key: str) -> str:
    """One field of an accepted form, or what was done instead."""
    assert isinstance(answer, types.ElicitResult)
    return str((answer.content or {}).get(key, "")) if answer.action == "accept" else answer.action


def sampled(answer: Answer) -> str:
    content = getattr(answer, "content", None)
    return content.text if isinstance(content, types.TextContent) else "(not text)"


STRING: Schema = {"type": "string"}
NAME_FORM = form("What is your name?", properties(("name",), name=STRING))
OK_FORM = form("Please confirm", properties(("ok",), ok={"type": "boolean"}))


# -- tools: content


@tool("One text block")
async def test_simple_text(call: Call) -> ToolAnswer:
    return says("This is a simple text response for testing.")


@tool("One image block")
async def test_image_content(call: Call) -> ToolAnswer:
    return says(image())


@tool("One audio block")
async def test_audio_content(call: Call) -> ToolAnswer:
    return says(types.AudioContent(data=WAV, mime_type="audio/wav"))


@tool("One embedded resource")
async def test_embedded_resource(call: Call) -> ToolAnswer:
    return says(embedded("test://embedded-resource", "This is an embedded resource content."))


@tool("Text, image and embedded resource in one result")
async def test_multiple_content_types(call: Call) -> ToolAnswer:
    words = json.dumps({"test": "data", "value": 123})
    resource = embedded("test://mixed-content-resource", words, "application/json")
    return says("Multiple content types test:", image(), resource)


@tool("A result that is an error")
async def test_error_handling(call: Call) -> ToolAnswer:
    return ToolAnswer(content=[text("This tool intentionally returns an error for testing")], is_error=True)


@tool(
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", **properties(street=STRING, city=STRING)}},
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(call: Call) -> ToolAnswer:
    return says(json.dumps(call.arguments))


@tool("A tool whose region stands in a header too", properties(region={**STRING, "x-mcp-header": "Region"}))
async def test_header_mirroring(call: Call) -> ToolAnswer:
    return says(f"region={call.arguments.get('region')}")


# -- tools: while a call runs


@tool("Three log messages, 50 ms apart")
async def test_tool_with_logging(call: Call) -> ToolAnswer:
    await call.log("Tool execution started")
    await anyio.sleep(0.05)
    await call.log("Tool processing data")
    await anyio.sleep(0.05)
    await call.log("Tool execution completed")
    return says("Tool with logging executed successfully")


@tool("One log message")
async def test_logging_tool(call: Call) -> ToolAnswer:
    await call.log("Seen only by a caller that asked for logs")
    return says("logged")


@tool("Progress 0, 50 and 100 of 100, 50 ms apart")
async def test_tool_with_progress(call: Call) -> ToolAnswer:
    for done in (0, 50, 100):
        await call.context.session.report_progress(done, 100)
        await anyio.sleep(0.05)
    return says("Tool with progress executed successfully")


@tool("Closes its own stream in mid-call; the result waits for who comes back with Last-Event-ID")
async def test_reconnection(call: Call) -> ToolAnswer:
    if call.context.close_sse_stream is not None:
        await call.context.close_sse_stream()
    await anyio.sleep(0.3)  # longer than it takes mcphub to begin a stream for its own agent
    return says("Reconnection test completed")


# -- tools: questions to the caller


@tool("Asks the caller's model", properties(("prompt",), prompt=STRING))
async def test_sampling(call: Call) -> ToolAnswer:
    answers = await call.ask({"sample": sample(call.arguments["prompt"])})
    return says(f"LLM response: {sampled(answers['sample'])}")


async def elicited(call: Call, message: str, schema: Schema, words: str) -> ToolAnswer:
    answer = (await call.ask({"form": form(message, schema)}))["form"]
    assert isinstance(answer, types.ElicitResult)
    return says(f"{words}: action={answer.action}, content={json.dumps(answer.content or {})}")


@tool("Asks the caller's person", properties(("message",), message=STRING))
async def test_elicitation(call: Call) -> ToolAnswer:
    username = {**STRING, "description": "User's response"}
    email = {**STRING, "description": "User's email address"}
    schema = properties(("username", "email"), username=username, email=email)
    return await elicited(call, call.arguments["message"], schema, "User response")


@tool("Asks with a form whose fields have defaults")
async def test_elicitation_sep1034_defaults(call: Call) -> ToolAnswer:
    schema = properties(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return await elicited(call, "Please review", schema, "Elicitation completed")


@tool("Asks with a form that has every kind of choice")
async def test_elicitation_sep1330_enums(call: Call) -> ToolAnswer:
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    schema = properties(
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
        legacyEnum={"type": "string", **legacy},
    )
    return await elicited(call, "Please choose", schema, "Elicitation completed")


@tool("Asks the caller's person, then says so")
async def test_streaming_elicitation(call: Call) -> ToolAnswer:
    answers = await call.ask({"user_name": NAME_FORM})
    return says(f"Hello, {named(answers['user_name'], 'name')}!")


@tool("Refuses a caller that did not declare sampling")
async def test_missing_capability(call: Call) -> ToolAnswer:
    if not call.declared("sampling"):
        code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
        raise MCPError(code, "this tool needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return says("The caller can sample")


@tool("Asks for a name")
async def test_input_required_result_elicitation(call: Call) -> ToolAnswer:
    answers = await call.ask({"user_name": NAME_FORM})
    return says(f"Hello, {named(answers['user_name'], 'name')}!")


@tool("Asks the caller's model for a capital")
async def test_input_required_result_sampling(call: Call) -> ToolAnswer:
    answers = await call.ask({"capital_question": sample("What is the capital of France?")})
    return says(f"The model said: {sampled(answers['capital_question'])}")


def roots(answer: Answer) -> str:
    assert isinstance(answer, types.ListRootsResult)
    return ", ".join(str(root.uri) for root in answer.roots) or "none"


@tool("Asks for the caller's roots")
async def test_input_required_result_list_roots(call: Call) -> ToolAnswer:
    answers = await call.ask({"client_roots": types.ListRootsRequest(params=types.RequestParams())})
    return says(f"Roots: {roots(answers['client_roots'])}")


@tool("Asks for a confirmation, with a state that has to come back")
async def test_input_required_result_request_state(call: Call) -> ToolAnswer:
    await call.ask({"confirm": OK_FORM}, "asked")
    return says("state-ok" if call.state == "asked" or not call.modern else "the state did not come back")


@tool("Asks for a confirmation, with a state that nobody may change")
async def test_input_required_result_tampered_state(call: Call) -> ToolAnswer:
    await call.ask({"confirm": OK_FORM}, "asked")
    return says("state-ok" if call.state == "asked" or not call.modern else "the state did not come back")


@tool("Asks three questions at once")
async def test_input_required_result_multiple_inputs(call: Call) -> ToolAnswer:
    questions: dict[str, Question] = {
        "user_name": NAME_FORM,
        "greeting": sample("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(params=types.RequestParams()),
    }
    answers = await call.ask(questions, "asked")
    name, greeting = named(answers["user_name"], "name"), sampled(answers["greeting"])
    return says(f"{greeting}, {name}! Roots: {roots(answers['client_roots'])}")


@tool("Asks two questions, one after the other")
async def test_input_required_result_multi_round(call: Call) -> ToolAnswer:
    first, second = "Step 1: What is your name?", "Step 2: What is your favorite color?"
    phase, _, name = call.state.partition(":")
    if phase != "step2":
        answers = await call.ask({"step1": form(first, properties(("name",), name=STRING))}, "step1")
        name = named(answers["step1"], "name")
    answers = await call.ask({"step2": form(second, properties(("color",), color=STRING))}, f"step2:{name}")
    return says(f"{name} likes {named(answers['step2'], 'color')}")


@tool("Asks whatever the caller said that it can answer")
async def test_input_required_result_capabilities(call: Call) -> ToolAnswer:
    questions: dict[str, Question] = {}
    if call.declared("elicitation"):
        questions["user_name"] = NAME_FORM
    if call.declared("sampling"):
        questions["greeting"] = sample("Generate a greeting", 50)
    if call.declared("roots"):
        questions["client_roots"] = types.ListRootsRequest(params=types.RequestParams())
    answers = await call.ask(questions)
    return says("Answered: " + ", ".join(sorted(answers)))


# -- tools: tasks (SEP-2663)

EXTENSION = "io.modelcontextprotocol/tasks"
ENDS = ("completed", "failed", "cancelled")
#: What a task does when it was at work for so many seconds: its members, from the answers that it was given.
Comes = Callable[[Mapping[str, Any]], dict[str, Any]]


def dumped(value: types.CallToolResult | Question) -> dict[str, Any]:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


@dataclass
class Task:
    """One task: what it comes to is told by the time and by the answers alone, so nothing runs."""

    id: str
    #: Seconds at work after the last answer.
    seconds: float
    comes: Comes
    questions: dict[str, Question] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    cancelled: bool = False
    made: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    since: float = field(default_factory=time.monotonic)

    def seed(self) -> dict[str, Any]:
        times = {"createdAt": self.made, "lastUpdatedAt": self.made, "ttlMs": 60_000, "pollIntervalMs": 100}
        return {"taskId": self.id, "status": "working", "statusMessage": "at work", **times}

    def state(self) -> dict[str, Any]:
        seed = self.seed()
        if self.cancelled:
            return {**seed, "status": "cancelled"}
        if self.questions:
            asked = {key: dumped(question) for key, question in self.questions.items()}
            return {**seed, "status": "input_required", "inputRequests": asked}
        if time.monotonic() - self.since < self.seconds:
            return seed
        return {**seed, **self.comes(self.answers)}

    def answer(self, responses: Mapping[str, Any]) -> None:
        for key in self.questions.keys() & responses.keys():
            self.answers[key] = responses[key]
            del self.questions[key]
            self.since = time.monotonic()

    def cancel(self) -> None:
        self.cancelled = self.state()["status"] not in ENDS


class TaskParams(types.RequestParams):
    taskId: str
    inputResponses: dict[str, Any] = {}


def has_tasks(context: Context) -> bool:
    """Whether this caller can have tasks, as it says with each request."""
    declared = context.session.client_capabilities
    return declared is not None and EXTENSION in (declared.extensions or {})


def needs_tasks(what: str) -> MCPError:
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"{what} needs tasks", needed)


def completed(result: ToolAnswer) -> dict[str, Any]:
    return {"status": "completed", "result": dumped(result)}


async def tasked(
    call: Call, seconds: float, comes: Comes, questions: Mapping[str, Question] | None = None, *, required: bool = False
) -> ToolAnswer:
    """A task for a caller that can have one. Else the work itself, at once, or the refusal of what must be a task."""
    if call.modern and has_tasks(call.context):
        task = Task(secrets.token_urlsafe(16), seconds, comes, dict(questions or {}))
        call.everything.tasks[task.id] = task
        made: Any = {"resultType": "task", **task.seed()}
        return made  # type: ignore[no-any-return]
    if required and call.modern:
        raise needs_tasks("this tool")
    answers = await call.ask(questions) if questions else {}
    await anyio.sleep(seconds)
    found = comes({key: answer.model_dump(by_alias=True) for key, answer in answers.items()})
    if "error" in found:
        raise MCPError(found["error"]["code"], found["error"]["message"])
    return ToolAnswer.model_validate(found["result"])


@tool("Greets", properties(("name",), name=STRING))
async def greet(call: Call) -> ToolAnswer:
    return says(f"Hello, {call.arguments['name']}!")


@tool("Sleeps, as a task", properties(seconds={"type": "number"}, label=STRING))
async def slow_compute(call: Call) -> ToolAnswer:
    seconds = float(call.arguments.get("seconds", 0))
    return await tasked(call, seconds, lambda _: completed(says(f"computed {call.arguments.get('label', '')}")))


@tool("Fails, as a task")
async def failing_job(call: Call) -> ToolAnswer:
    failed = ToolAnswer(content=[text("the job failed")], is_error=True)
    return await tasked(call, 0.3, lambda _: completed(failed), required=True)


@tool("Ends a task by an error of the protocol")
async def protocol_error_job(call: Call) -> ToolAnswer:
    error = {"code": types.INTERNAL_ERROR, "message": "the job broke"}
    return await tasked(call, 0.1, lambda _: {"status": "failed", "error": error})


@tool("Asks in the middle of a task", properties(filename=STRING))
async def confirm_delete(call: Call) -> ToolAnswer:
    def comes(answers: Mapping[str, Any]) -> dict[str, Any]:
        return completed(says(f"{answers['confirm']['action']}: {call.arguments.get('filename')}"))

    return await tasked(call, 0.1, comes, {"confirm": OK_FORM})


@tool("Asks two questions in the middle of a task")
async def multi_input(call: Call) -> ToolAnswer:
    return await tasked(
        call, 0.1, lambda answers: completed(says(f"{len(answers)} answers")), {"first": NAME_FORM, "second": OK_FORM}
    )


@tool("Asks first, then becomes a task")
async def test_tool_with_task(call: Call) -> ToolAnswer:
    name = named((await call.ask({"user_name": NAME_FORM}, "asked"))["user_name"], "name")
    return await tasked(call, 0.2, lambda _: completed(says(f"Hello, {name}!")), required=True)


# -- tools: lists that change


@tool("Adds a tool to the list, or takes it away again")
async def test_trigger_tool_change(call: Call) -> ToolAnswer:
    await call.everything.toggle(call, "tools")
    return says("The list of tools changed")


@tool("Adds a prompt to the list, or takes it away again")
async def test_trigger_prompt_change(call: Call) -> ToolAnswer:
    await call.everything.toggle(call, "prompts")
    return says("The list of prompts changed")


# -- prompts


def asks(*blocks: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


@prompt("One text message")
async def test_simple_prompt(call: Call) -> types.GetPromptResult:
    return asks(text("This is a simple prompt for testing."))


@prompt("Repeats its arguments", arg1="First test argument", arg2="Second test argument")
async def test_prompt_with_arguments(call: Call) -> types.GetPromptResult:
    return asks(text("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'".format_map(call.arguments)))


@prompt("Embeds a resource", resourceUri="URI of the resource to embed")
async def test_prompt_with_embedded_resource(call: Call) -> types.GetPromptResult:
    resource = embedded(call.arguments["resourceUri"], "Embedded resource content for testing.")
    return asks(resource, text("Please process the embedded resource above."))


@prompt("One image and one text message")
async def test_prompt_with_image(call: Call) -> types.GetPromptResult:
    return asks(image(), text("Please analyze the image above."))


@prompt("Asks for its context first")
async def test_input_required_result_prompt(call: Call) -> types.GetPromptResult:
    question = form("What context should the prompt use?", properties(("context",), context=STRING))
    answers = await call.ask({"user_context": question})
    return asks(text(f"Use this context: {named(answers['user_context'], 'context')}"))


# -- resources

RESOURCES = [
    types.Resource(
        uri="test://static-text", name="static-text", description="A text that stays", mime_type="text/plain"
    ),
    types.Resource(
        uri="test://static-binary", name="static-binary", description="An image that stays", mime_type="image/png"
    ),
    types.Resource(
        uri="test://watched-resource", name="watched", description="A text to subscribe to", mime_type="text/plain"
    ),
]
TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data",
    name="template",
    description="Data of one id",
    mime_type="application/json",
)


def read(uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    """Raises MCPError -32602 for what is not there."""
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    if uri == "test://static-binary":
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri == "test://watched-resource":
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text="Watched resource content")
    id = uri.removeprefix("test://template/").removesuffix("/data")
    if uri == f"test://template/{id}/data" and id and "/" not in id:
        words = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=words)
    raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})


# -- the server


class Announcing(Server[Any]):
    """Says in the legacy handshake, too, that its lists change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = NotificationOptions(prompts_changed=True, resources_changed=False, tools_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


@dataclass
class Everything:
    """The handlers, and the two lists' toggles, which all callers share."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    extra: set[str] = field(default_factory=set)
    tasks: dict[str, Task] = field(default_factory=dict)

    def server(self) -> Server[Any]:
        hint = CacheHint(ttl_ms=1000, scope="public")
        with warnings.catch_warnings(action="ignore"):
            server = Announcing(
                NAME,
                version="1.0.0",
                instructions="One of everything, for tests.",
                cache_hints=dict.fromkeys(
                    (
                        "server/discover",
                        "tools/list",
                        "prompts/list",
                        "resources/list",
                        "resources/templates/list",
                        "resources/read",
                    ),
                    hint,
                ),
                on_list_tools=self.list_tools,
                on_call_tool=self.call_tool,
                on_list_prompts=self.list_prompts,
                on_get_prompt=self.get_prompt,
                on_list_resources=self.list_resources,
                on_list_resource_templates=self.list_templates,
                on_read_resource=self.read_resource,
                on_subscribe_resource=self.empty,
                on_unsubscribe_resource=self.empty,
                on_subscriptions_listen=ListenHandler(self.bus),
                on_completion=self.complete,
                on_set_logging_level=self.empty,
            )
        server.extensions[EXTENSION] = {}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            server.add_request_handler(method, TaskParams, partial(self.about_task, method))
        server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
        return server

    async def about_task(self, method: str, context: Context, params: TaskParams) -> dict[str, Any]:
        """One of the requests about a task; over HTTP its name must stand in the headers."""
        if not has_tasks(context):
            raise needs_tasks(method)
        headers = getattr(context.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != params.taskId:
            raise MCPError(-32020, f"Mcp-Name is {headers.get('mcp-name')!r}, and not {params.taskId!r}")
        task = self.tasks.get(params.taskId)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, "Task not found")
        if method == "tasks/get":
            return {"resultType": "complete", **task.state()}
        if method == "tasks/update":
            task.answer(params.inputResponses)
        else:
            task.cancel()
        return {"resultType": "complete"}

    async def toggle(self, call: Call, what: Literal["tools", "prompts"]) -> None:
        """Changes one list, and tells every modern listener and the legacy caller."""
        self.extra ^= {what}
        await self.bus.publish(ToolsListChanged() if what == "tools" else PromptsListChanged())
        if not call.modern:
            session = call.context.session
            await (session.send_tool_list_changed() if what == "tools" else session.send_prompt_list_changed())

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = [offered for offered, _ in TOOLS.values()]
        if "tools" in self.extra:
            tools.append(
                types.Tool(name="test_added_tool", description="Comes and goes", input_schema={"type": "object"})
            )
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name == "test_added_tool" and "tools" in self.extra:
            return says("here for now")
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        offered, run = TOOLS[params.name]
        if missing := [key for key in offered.input_schema.get("required", ()) if key not in (params.arguments or {})]:
            return ToolAnswer(content=[text(f"missing arguments: {', '.join(missing)}")], is_error=True)
        return await self.rounds(run, context, params)

    async def list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        prompts = [offered for offered, _ in PROMPTS.values()]
        if "prompts" in self.extra:
            prompts.append(types.Prompt(name="test_added_prompt", description="Comes and goes"))
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if params.name == "test_added_prompt" and "prompts" in self.extra:
            return asks(text("here for now"))
        if params.name not in PROMPTS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        offered, run = PROMPTS[params.name]
        if missing := [one.name for one in offered.arguments or () if one.name not in (params.arguments or {})]:
            raise MCPError(types.INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        return await self.rounds(run, context, params)

    async def rounds(
        self,
        run: Callable[[Call], Awaitable[Result]],
        context: Context,
        params: types.CallToolRequestParams | types.GetPromptRequestParams,
    ) -> Result | types.InputRequiredResult:
        """Runs what was called; a question that a modern caller has not answered yet is the result of this round."""
        answers = params.input_responses or {}
        try:
            return await run(Call(context, params.arguments or {}, answers, params.request_state or "", self))
        except NeedsInput as needs:
            return needs.result

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=RESOURCES)

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        return types.ReadResourceResult(contents=[read(str(params.uri))])

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))

    async def empty(self, context: Context, params: Any) -> types.EmptyResult:
        return types.EmptyResult()


class KeptEvents(EventStore):
    """The events of streams that a client may come back to, for as long as the process lives."""

    def __init__(self) -> None:
        self.events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id) if last_event_id.isdigit() else 0
        if not 0 < last <= len(self.events):
            return None
        stream = self.events[last - 1][0]
        for number, (one, message) in enumerate(self.events[last:], last + 1):
            if one == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


async def serve_http(port: int) -> None:
    """Prints its URL once it can be called."""
    app = Everything().server().streamable_http_app(event_store=KeptEvents(), retry_interval=RETRY)
    # httptools leaves the blanks behind a header's value, which then is not what the body says.
    config = uvicorn.Config(app, http="h11", ws="none", log_level="warning", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", port)) as listener:
        # asyncio does so by itself only where it made the socket; without it every answer waits 40 ms for an ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


async def serve_stdio() -> None:
    server = Everything().server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> None:
    parser = argparse.ArgumentParser(prog="everything")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--http", metavar="PORT", type=int)
    how.add_argument("--stdio", action="store_true")
    args = parser.parse_args()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if args.stdio:
        anyio.run(serve_stdio)
    else:
        anyio.run(serve_http, args.http)


if __name__ == "__main__":
    main()
