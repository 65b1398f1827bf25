"""Prompts, resources, questions and logs between agents and servers of both eras, among them servers of others."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.test_counterparts import INSTALLED, node
from tests.fakes.agent import META, Agent, Message, text
from tests.fakes.http_agent import HttpAgent, encoded
from tests.fakes.hub import Fake, Hub, Place, eventually, running

pytestmark = [pytest.mark.anyio, pytest.mark.counterparts]

EVERYTHING = Path(__file__).parents[1] / "fakes" / "everything.py"
CAPABLE: Message = {"elicitation": {}, "sampling": {}, "roots": {}}
ELICIT, SAMPLE, UPDATED = "elicitation/create", "sampling/createMessage", "notifications/resources/updated"
ACCEPTED = {"action": "accept", "content": {"name": "Ada", "username": "ada", "email": "a@b", "context": "c"}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
SUBSCRIBE = {"resources": {"subscribe": True}, "tools": {"listChanged": True}}
NAMED = {META + "clientInfo": {"name": "one", "version": "1"}}
MAY_ASK: Message = {META + "clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}}


def offers(uri: str, **script: Any) -> Fake:
    """A legacy server with one resource that can be watched."""
    more: dict[str, Any] = script.pop("on", {})
    on = {
        "resources/list": [{"answer": {"resources": [{"uri": uri, "name": "r"}]}}],
        "resources/templates/list": [{"answer": {"resourceTemplates": []}}],
        "resources/subscribe": [{"answer": {}}],
        "resources/unsubscribe": [{"answer": {}}],
        "resources/read": [{"answer": {"contents": [{"uri": uri, "text": script.get("name", "")}]}}],
        **more,
    }
    return Fake({"capabilities": SUBSCRIBE, "on": on, **script})


def servers() -> dict[str, Any]:
    python = {"command": sys.executable, "args": [str(EVERYTHING), "--stdio"], "sampling": True}
    index = INSTALLED / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    return {
        "ts": {"command": node(), "args": [str(index)], "sampling": True},
        "new": python,
        "old": {**python, "era": "legacy"},
        "a": offers("file:///a", name="of a"),
        "b": offers("file:///a", name="of b"),
    }


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Hub]:
    async with running(servers()) as hub:
        await hub.until_state(*servers(), timeout=40)
        yield hub


@pytest.fixture
async def agent(hub: Hub) -> AsyncIterator[Agent]:
    """A legacy agent with a person and a model behind it; it may use the modern era as well."""
    async with await hub.agent() as agent:
        await able(agent)
        agent.answers["roots/list"] = {"roots": [{"uri": (hub.place.root / "w").as_uri()}, {"uri": "file:///etc"}]}
        yield agent


async def able(agent: Agent) -> None:
    await agent.initialize(capabilities=CAPABLE)
    agent.answers.update({ELICIT: ACCEPTED, SAMPLE: SAMPLED, "roots/list": {"roots": [{"uri": "file:///w"}]}})


async def both(agent: Agent, method: str, params: Message | None = None) -> list[Message]:
    """The answers of both eras, which differ in the members of the modern one alone."""
    legacy = await agent.request(method, params)
    modern = await agent.modern(method, params)
    assert modern.get("result", {"resultType": "complete"})["resultType"] == "complete"
    assert not legacy.get("result", {}).keys() & {"resultType", "ttlMs", "cacheScope"}
    return [legacy, modern]


def sent(hub: Hub, server: str, method: str) -> list[Message]:
    return [m for m in hub.received(server) if isinstance(m, dict) and m.get("method") == method]


# -- prompts, resources, completion


async def test_lists(agent: Agent) -> None:
    """H2: all servers' prompts, resources and templates, under names of their own, for both eras."""
    for answer in await both(agent, "prompts/list"):
        names = [prompt["name"] for prompt in answer["result"]["prompts"]]
        assert {"mcp__new__test_simple_prompt", "mcp__old__test_simple_prompt", "mcp__ts__simple-prompt"} <= set(names)
        assert len(names) == len(set(names))
    for answer in await both(agent, "resources/list"):
        uris = [resource["uri"] for resource in answer["result"]["resources"]]
        assert {"mcphub://new/test://static-text", "mcphub://a/file:///a", "mcphub://b/file:///a"} <= set(uris)
    for answer in await both(agent, "resources/templates/list"):
        templates = [one["uriTemplate"] for one in answer["result"]["resourceTemplates"]]
        assert "mcphub://old/test://template/{id}/data" in templates
        assert "mcphub://ts/demo://resource/dynamic/text/{resourceId}" in templates
    modern = (await agent.modern("resources/list"))["result"]
    assert 0 <= modern["ttlMs"] <= 60_000 and modern["cacheScope"] == "private"


@pytest.mark.parametrize("server", ["new", "old"])
async def test_prompts(agent: Agent, server: str) -> None:
    """B55: a prompt gets its arguments, and the URIs in it are the exposed ones."""
    params = {"name": f"mcp__{server}__test_prompt_with_arguments", "arguments": {"arg1": "x", "arg2": "漢"}}
    for answer in await both(agent, "prompts/get", params):
        assert "arg1='x', arg2='漢'" in answer["result"]["messages"][0]["content"]["text"]
    params = {"name": f"mcp__{server}__test_prompt_with_embedded_resource", "arguments": {"resourceUri": "x://1"}}
    for answer in await both(agent, "prompts/get", params):
        assert answer["result"]["messages"][0]["content"]["resource"]["uri"] == f"mcphub://{server}/x://1"
    for answer in await both(agent, "prompts/get", {"name": f"mcp__{server}__nope"}):
        assert answer["error"]["code"] == -32602


async def test_one_uri_of_two_servers(agent: Agent) -> None:
    """B54, B56: each exposed URI reaches its own server; the raw one is refused with both."""
    for server in ("a", "b"):
        for answer in await both(agent, "resources/read", {"uri": f"mcphub://{server}/file:///a"}):
            [content] = answer["result"]["contents"]
            assert content == {"uri": f"mcphub://{server}/file:///a", "text": f"of {server}"}
    for answer in await both(agent, "resources/read", {"uri": "file:///a"}):
        assert answer["error"]["code"] == -32602
        assert all(f"mcphub://{server}/file:///a" in answer["error"]["message"] for server in ("a", "b"))


@pytest.mark.parametrize("server", ["new", "old"])
async def test_a_template(agent: Agent, server: str) -> None:
    """B55: expanding the exposed template and reading it is expanding the original."""
    for answer in await both(agent, "resources/read", {"uri": f"mcphub://{server}/test://template/7/data"}):
        [content] = answer["result"]["contents"]
        assert content["uri"] == f"mcphub://{server}/test://template/7/data" and '"id": "7"' in content["text"]
    for answer in await both(agent, "resources/read", {"uri": f"mcphub://{server}/test://nope"}):
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"]["uri"] == f"mcphub://{server}/test://nope"


async def test_uris_in_tool_results(agent: Agent) -> None:
    """B55: links and embedded resources can be read as they stand."""
    answer = await agent.call("mcp__ts__get-resource-links", {"count": 2})
    links = [block["uri"] for block in answer["result"]["content"] if block["type"] == "resource_link"]
    assert links and all(uri.startswith("mcphub://ts/demo://") for uri in links)
    for uri in links:
        assert (await agent.request("resources/read", {"uri": uri}))["result"]["contents"][0]["uri"] == uri
    for era in ("legacy", "modern"):
        [block] = (await agent.call("mcp__new__test_embedded_resource", era=era))["result"]["content"]
        assert block["resource"]["uri"] == "mcphub://new/test://embedded-resource"


async def test_completion(agent: Agent) -> None:
    """References go by the server's own names."""
    argument = {"name": "id", "value": "par"}
    for server in ("new", "old"):
        for ref in (
            {"type": "ref/prompt", "name": f"mcp__{server}__test_prompt_with_arguments"},
            {"type": "ref/resource", "uri": f"mcphub://{server}/test://template/{{id}}/data"},
        ):
            for answer in await both(agent, "completion/complete", {"ref": ref, "argument": argument}):
                assert answer["result"]["completion"]["values"] == ["paris", "park", "party"]
    ref = {"type": "ref/prompt", "name": "mcp__ts__completable-prompt"}
    params = {"ref": ref, "argument": {"name": "department", "value": "E"}}
    assert "Engineering" in (await agent.request("completion/complete", params))["result"]["completion"]["values"]
    ref = {"type": "ref/resource", "uri": "mcphub://a/file:///a"}
    for answer in await both(agent, "completion/complete", {"ref": ref, "argument": argument}):
        assert answer["error"]["code"] == -32601


async def test_instructions(agent: Agent) -> None:
    """Each server's text is there under its name, in both eras."""
    result = (await agent.modern("server/discover"))["result"]
    assert "## new\nOne of everything, for tests." in result["instructions"]
    assert result["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
    assert result["instructions"].index("## new\n") < result["instructions"].index("## old\n")


# -- questions


async def test_questions_of_legacy_servers(agent: Agent) -> None:
    """B46, B47: who asks is in front of the message; the answers reach the tool."""
    assert "action=accept" in text(await agent.call("mcp__old__test_elicitation", {"message": "Who?"}))
    assert text(await agent.call("mcp__old__test_sampling", {"prompt": "p"})) == "LLM response: Paris"
    listed = text(await agent.call("mcp__old__test_input_required_result_list_roots"))
    assert listed.endswith("/w") and "etc" not in listed
    assert "accept" in str((await agent.call("mcp__ts__trigger-elicitation-request"))["result"])
    assert "Paris" in str((await agent.call("mcp__ts__trigger-sampling-request", {"prompt": "p"}))["result"])
    messages = [q["params"]["message"] for q in agent.asked if q["method"] == ELICIT]
    assert messages[0] == "[old] Who?" and messages[1].startswith("[ts] ")
    assert all("includeContext" not in q["params"] for q in agent.asked if q["method"] == SAMPLE)


async def test_an_agent_that_declared_nothing(hub: Hub) -> None:
    """B36: a form is cancelled for it, sampling refused; it sees no question."""
    async with await hub.agent() as agent:
        await agent.initialize()
        assert "action=cancel" in text(await agent.call("mcp__old__test_elicitation", {"message": "Who?"}))
        refused = await agent.call("mcp__old__test_sampling", {"prompt": "p"})
        assert "error" in refused or refused["result"]["isError"]
        assert agent.asked == []


async def test_a_legacy_agent_and_a_modern_server(agent: Agent) -> None:
    """B32: what the server needs is asked by requests, however often it asks, and its state comes back."""
    assert text(await agent.call("mcp__new__test_input_required_result_elicitation")) == "Hello, Ada!"
    assert agent.asked[-1]["params"]["message"] == "[new] What is your name?"
    assert text(await agent.call("mcp__new__test_input_required_result_request_state")) == "state-ok"
    assert "Paris" in text(await agent.call("mcp__new__test_input_required_result_multiple_inputs"))
    assert len({asked["id"] for asked in agent.asked}) == len(agent.asked) == 5


async def test_a_modern_agent_and_a_legacy_server(hub: Hub) -> None:
    """B38: the question is a round, whose retry may come over another connection; a form, a model and roots at once."""
    call = {"name": "mcp__old__test_input_required_result_multiple_inputs", "arguments": {}}
    async with await hub.agent() as agent:
        asked = await round_of(agent, call)
        methods = sorted(one["method"] for one in asked["inputRequests"].values())
        assert methods == [ELICIT, "roots/list", SAMPLE]
    answers = {ELICIT: ACCEPTED, SAMPLE: SAMPLED, "roots/list": {"roots": []}}
    given = {key: answers[one["method"]] for key, one in asked["inputRequests"].items()}
    async with await hub.agent() as again:
        done = await round_of(again, {**call, "inputResponses": given, "requestState": asked["requestState"]})
    assert done["content"][0]["text"].startswith("Paris, Ada!")


async def round_of(
    agent: Agent, params: Message, method: str = "tools/call", meta: Message | None = None
) -> Message:
    answer = await agent.modern(method, params, meta={**MAY_ASK, **NAMED, **(meta or {})})
    found: Message = answer.get("result", answer)
    return found


async def test_rounds(hub: Hub) -> None:
    """B34, B39, B46: the questions name the server; the retry completes; a seal serves nobody else."""
    call = {"name": "mcp__new__test_input_required_result_elicitation", "arguments": {}}
    async with await hub.agent() as agent:
        asked = await round_of(agent, call)
        assert asked["resultType"] == "input_required"
        [(key, question)] = asked["inputRequests"].items()
        assert question["params"]["message"] == "[new] What is your name?"
        retry = {**call, "inputResponses": {key: ACCEPTED}, "requestState": asked["requestState"]}
        for changed in (
            {"requestState": asked["requestState"][:-4] + "AAAA"},
            {"arguments": {"x": 1}},
            {"name": "mcp__new__test_input_required_result_sampling"},
        ):
            assert (await round_of(agent, {**retry, **changed}))["error"]["code"] == -32602
    other: Message = {META + "clientInfo": {"name": "another", "version": "1"}}
    async with await hub.agent() as another:
        assert (await round_of(another, retry, meta=other))["error"]["code"] == -32602
    async with await hub.agent() as again:  # another connection of the same agent
        assert (await round_of(again, retry))["content"][0]["text"] == "Hello, Ada!"


async def test_rounds_with_a_model_and_of_a_prompt(agent: Agent) -> None:
    """They work as a form does, and so do those of a prompt."""
    call = {"name": "mcp__new__test_input_required_result_sampling", "arguments": {}}
    asked = await round_of(agent, call)
    retry = {"inputResponses": dict.fromkeys(asked["inputRequests"], SAMPLED), "requestState": asked["requestState"]}
    assert "Paris" in (await round_of(agent, {**call, **retry}))["content"][0]["text"]
    get = {"name": "mcp__new__test_input_required_result_prompt"}
    asked = await round_of(agent, get, "prompts/get")
    retry = {"inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED), "requestState": asked["requestState"]}
    found = await round_of(agent, {**get, **retry}, "prompts/get")
    assert found["messages"][0]["content"]["text"] == "Use this context: c"


async def test_states_at_the_server(place: Place) -> None:
    """B31, B33, B34: the server gets its own state or none, what this agent declared, in whatever era, and never
    another call's."""
    question = {"method": ELICIT, "params": {"message": "m", "requestedSchema": {"type": "object"}}}
    with_state = {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": "own \0 state"}
    without = {"resultType": "input_required", "inputRequests": {"k": question}}
    tools = [
        {"name": "kept", "actions": [{"answer": with_state}]},
        {"name": "none", "actions": [{"answer": without}]},
        "do",
    ]
    fake = Fake({"era": "modern", "tools": tools})
    async with running({"s": fake}, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("s")
        await able(agent)
        for tool, state in (("kept", "own \0 state"), ("none", None)):
            call = {"name": f"mcp__s__{tool}", "arguments": {}}
            asked = await round_of(agent, call)
            await round_of(agent, {**call, "inputResponses": {"k": ACCEPTED}, "requestState": asked["requestState"]})
            first, retry = (m["params"] for m in sent(hub, "s", "tools/call")[-2:])
            assert retry.get("requestState") == state and retry["inputResponses"] == {"k": ACCEPTED}
            assert not first.keys() & {"requestState", "inputResponses"}
            assert retry["_meta"][META + "clientCapabilities"] == MAY_ASK[META + "clientCapabilities"]
        await agent.call("mcp__s__do", {"actions": [{"text": "ok"}]})
        last = sent(hub, "s", "tools/call")[-1]["params"]
        assert not last.keys() & {"requestState", "inputResponses"}
        assert last["_meta"][META + "clientCapabilities"] == MAY_ASK[META + "clientCapabilities"]


async def test_states_over_a_restart(place: Place) -> None:
    """B42, H13: a modern server's state still serves; a call that waited at a legacy one is told of, and not run
    again."""
    question = {"method": ELICIT, "params": {"message": "m", "requestedSchema": {"type": "object"}}}
    asks = {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": "own"}
    servers = {"n": Fake({"era": "modern", "tools": [{"name": "kept", "actions": [{"answer": asks}]}]}), "s": Fake()}
    waits, kept = call("do", FORM, {"reply": True}), {"name": "mcp__n__kept", "arguments": {}}
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("n", "s")
        old, new = await round_of(agent, waits), await round_of(agent, kept)
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("n", "s")
        before = len(sent(hub, "s", "tools/call"))
        answers = {"r1": ACCEPTED, "k": ACCEPTED}
        gone = await round_of(agent, {**waits, "inputResponses": answers, "requestState": old["requestState"]})
        assert gone["error"]["code"] == -32602
        assert gone["error"]["data"]["dev.mcphub/error"]["kind"] == "request_state_lost"
        assert len(sent(hub, "s", "tools/call")) == before
        await round_of(agent, {**kept, "inputResponses": answers, "requestState": new["requestState"]})
        assert sent(hub, "n", "tools/call")[-1]["params"]["requestState"] == "own"


async def test_a_question_on_the_stream_of_its_call(place: Place) -> None:
    """B37: over HTTP a modern server's question to a legacy agent is on the stream of the POST that it belongs to."""
    question = {"method": ELICIT, "params": {"message": "m", "requestedSchema": {"type": "object"}}}
    asks = {"resultType": "input_required", "inputRequests": {"k": question}}
    servers = {"n": Fake({"era": "modern", "tools": [{"name": "asks", "actions": [{"answer": asks}]}]})}
    async with running(servers, place=place) as hub:
        await hub.until_state("n")
        socket = place.agent_socket.with_name("http.sock")
        agent = HttpAgent(f"unix://{socket}#/mcp")
        hello = {"protocolVersion": "2025-11-25", "capabilities": CAPABLE, "clientInfo": {"name": "x", "version": "1"}}
        begun = await agent.ask("POST", {}, encoded("initialize", hello, 0))
        agent.session, agent.version = begun.headers["mcp-session-id"], "2025-11-25"
        await agent.notify("notifications/initialized")
        body = encoded("tools/call", {"name": "mcp__n__asks", "arguments": {}}, 1)
        async with agent.open("POST", agent.legacy_headers, body) as stream:
            with anyio.fail_after(10):
                asked = await stream.event()
                assert asked is not None and asked["params"]["message"] == "[n] m"
                refused = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}}
                assert (await agent.ask("POST", agent.legacy_headers, json.dumps(refused).encode())).status == 202
                again = await stream.event()
                assert again is not None and again["id"] != asked["id"]
        answers = [m["params"].get("inputResponses") for m in sent(hub, "n", "tools/call")]
        assert answers == [None, {"k": {"action": "cancel"}}]


FORM = {"ask": ELICIT, "params": {"message": "m", "requestedSchema": {"type": "object"}}}


async def test_two_agents_and_one_question(place: Place) -> None:
    """B43: with two agents in flight nobody is asked; from then on they take turns, and each is asked."""
    go, held = place.root / "go", place.root / "held"
    async with (
        running({"s": Fake()}, place=place) as hub,
        await hub.agent() as one,
        await hub.agent() as two,
    ):
        await hub.until_state("s")
        for agent in (one, two):
            await able(agent)
        waits = await two.start("tools/call", call("do", {"touch": str(held)}, {"wait": str(go)}, {"text": "two"}))
        await eventually(held.exists, timeout=10)
        refused = await one.call("mcp__s__do", {"actions": [FORM, {"reply": True}]})
        assert '"code": -32602' in text(refused) and one.asked == two.asked == []
        mine = await one.start("tools/call", call("do", FORM, {"reply": True}))
        assert (await one.request("ping"))["result"] == {}
        assert len(sent(hub, "s", "tools/call")) == 2
        go.touch()
        assert text(await two.response(waits)) == "two"
        assert '"action": "accept"' in text(await one.response(mine))
        assert len(one.asked) == 1 and two.asked == []
        [ours] = [m for m in hub.received("s") if isinstance(m, dict) and m.get("result") == ACCEPTED]
        assert ours["id"] == "s2"


def call(tool: str, *actions: Message) -> Message:
    return {"name": f"mcp__s__{tool}", "arguments": {"actions": list(actions)}}


async def test_a_question_of_nobody(place: Place) -> None:
    """B44: without a call an elicitation is refused, and one during a list never reaches an agent."""
    form = '{"jsonrpc":"2.0","id":"s%d","method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}\n'
    roots = '{"jsonrpc":"2.0","id":"s2","method":"roots/list"}\n'
    script = {
        "capabilities": {"tools": {}, "prompts": {}},
        "after": [{"write": form % 1 + roots}],
        "on": {"prompts/list": [{"write": form % 3}, {"answer": {"prompts": []}}]},
    }
    async with running({"s": Fake(script)}, place=place) as hub, await hub.agent() as agent:
        await able(agent)
        await hub.until_state("s")

        def answers() -> list[Message]:
            return [m for m in hub.received("s") if isinstance(m, dict) and str(m.get("id")) in ("s1", "s2", "s3")]

        await eventually(lambda: len(answers()) == 3, timeout=10)
        first, listed, second = answers()
        assert listed["result"] == {"roots": []}
        assert all(refused["error"]["code"] in (-32602, -32601) for refused in (first, second))
        assert agent.asked == []


async def test_an_answer_twice(place: Place) -> None:
    """B40: the server's question is answered once, whatever the agent says later."""
    async with running({"s": Fake()}, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("s")
        await able(agent)
        await agent.call("mcp__s__do", {"actions": [FORM, {"reply": True}]})
        for _ in range(2):
            await agent.send({"jsonrpc": "2.0", "id": agent.asked[0]["id"], "result": {"action": "decline"}})
        assert (await agent.request("ping"))["result"] == {}
        await agent.call("mcp__s__echo", {"text": "x"})
        assert [m["result"] for m in hub.received("s") if isinstance(m, dict) and m.get("id") == "s1"] == [ACCEPTED]


async def test_an_agent_that_leaves_while_asked(place: Place) -> None:
    """The server gets its answer and the cancellation, and serves the next agent."""
    async with running({"s": Fake()}, place=place) as hub:
        await hub.until_state("s")
        agent = await hub.agent()
        await able(agent)
        await agent.start("tools/call", call("do", FORM, {"reply": True}))
        seen = b""
        with anyio.fail_after(10):
            while ELICIT.encode() not in seen:  # not before: a question that comes after the end is one of nobody
                seen += await agent.peek(1 << 16)

        def answers() -> list[Message]:
            return [m for m in hub.received("s") if isinstance(m, dict) and m.get("id") == "s1"]

        async with await hub.agent() as other:
            await able(other)
            waits = await other.start("tools/call", call("do", {"text": "next"}))
            await anyio.aclose_forcefully(agent.stream)
            assert text(await other.response(waits)) == "next"
            await eventually(lambda: answers() and sent(hub, "s", "notifications/cancelled"), timeout=10)
            [answer] = answers()
            assert answer["result"] == {"action": "cancel"}


# -- changes


async def test_list_changed_of_prompts(hub: Hub) -> None:
    """B65: each server's change reaches the agents of both eras once, and no one who did not ask."""
    for server in ("new", "old"):
        async with await hub.agent() as old, await hub.agent() as new, await hub.agent() as deaf:
            await old.initialize()
            wanted = {"notifications": {"promptsListChanged": True}}
            mid = await new.start_modern("subscriptions/listen", wanted)
            await deaf.start_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            await new.notification("notifications/subscriptions/acknowledged")
            await old.call(f"mcp__{server}__test_trigger_prompt_change")
            await old.notification("notifications/prompts/list_changed")
            told = await new.notification("notifications/prompts/list_changed")
            assert told["params"]["_meta"][META + "subscriptionId"] == mid
            await deaf.modern("server/discover")
            assert [n["method"] for n in deaf.notifications] == ["notifications/subscriptions/acknowledged"]
            names = [p["name"] for p in (await old.request("prompts/list"))["result"]["prompts"]]
            assert f"mcp__{server}__test_added_prompt" in names


async def test_watching(hub: Hub) -> None:
    """B66: one subscription a URI, whoever holds it; sub-URIs are told of; the last one ends it."""
    async with await hub.agent() as old, await hub.agent() as new:
        await old.initialize()
        uri = "mcphub://a/file:///a"
        assert (await old.request("resources/subscribe", {"uri": uri}))["result"] == {}
        asked = {"notifications": {"resourceSubscriptions": [uri, "mcphub://nope/x"]}}
        mid = await new.start_modern("subscriptions/listen", asked)
        ack = await new.notification("notifications/subscriptions/acknowledged")
        assert ack["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        changed = {"notify": UPDATED, "params": {"uri": "file:///a/part"}}
        await old.call("mcp__a__do", {"actions": [changed, {"text": "ok"}]})
        assert (await old.notification(UPDATED))["params"] == {"uri": uri + "/part"}
        told = (await new.notification(UPDATED))["params"]
        assert told == {"uri": uri + "/part", "_meta": {META + "subscriptionId": mid}}
        assert (await old.request("resources/unsubscribe", {"uri": uri}))["result"] == {}
        assert sent(hub, "a", "resources/unsubscribe") == []
        await new.notify("notifications/cancelled", {"requestId": mid})
        await eventually(lambda: sent(hub, "a", "resources/unsubscribe"), timeout=10)
        assert [m["params"] for m in sent(hub, "a", "resources/subscribe")] == [{"uri": "file:///a"}]
        refused = await old.request("resources/subscribe", {"uri": "file:///a"})
        assert refused["error"]["data"]["dev.mcphub/error"]["kind"] == "not_subscribable"


async def test_watching_a_server_of_others(agent: Agent) -> None:
    """The official server's own updates come under the exposed URI."""
    uri = "mcphub://ts/demo://resource/dynamic/text/1"
    assert (await agent.request("resources/subscribe", {"uri": uri}))["result"] == {}
    await agent.call("mcp__ts__toggle-subscriber-updates")
    assert (await agent.notification(UPDATED))["params"]["uri"] == uri
    await agent.call("mcp__ts__toggle-subscriber-updates")
    assert (await agent.request("resources/unsubscribe", {"uri": uri}))["result"] == {}
    assert (await agent.request("resources/subscribe", {"uri": "mcphub://new/test://watched-resource"}))["result"] == {}


async def test_a_gap(place: Place) -> None:
    """B67: a server that came back with another list: list_changed, one `updated`, a new subscription."""
    later = {"on": {**offers("file:///b").script["on"]}}
    fake = offers("file:///a", tools=["do", {"name": "die", "actions": [{"exit": 9}]}], starts=[{}, later])
    async with running({"s": fake}, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("s")
        await able(agent)
        uri = "mcphub://s/file:///a"
        await agent.request("resources/subscribe", {"uri": uri})
        await agent.call("mcp__s__die")
        assert (await agent.notification(UPDATED))["params"] == {"uri": uri}
        await agent.notification("notifications/resources/list_changed")
        listed = (await agent.request("resources/list"))["result"]["resources"]
        assert [one["uri"] for one in listed] == ["mcphub://s/file:///b"]
        assert len(sent(hub, "s", "resources/subscribe")) == 2
        assert [n for n in agent.notifications if n["method"] == UPDATED] == []


# -- logs and progress


async def test_logs(hub: Hub) -> None:
    """B74: a modern agent hears only what it asked for; a legacy one nothing below its own level."""
    for server in ("old", "new"):
        async with await hub.agent() as loud, await hub.agent() as quiet, await hub.agent() as modern:
            for agent, level in ((loud, "debug"), (quiet, "error")):
                await agent.initialize()
                await agent.request("logging/setLevel", {"level": level})
            await loud.call(f"mcp__{server}__test_logging_tool")
            said = await loud.notification("notifications/message")
            assert said["params"]["logger"].startswith(server)
            await modern.call(f"mcp__{server}__test_logging_tool", era="modern")
            await modern.modern("tools/call", {"name": f"mcp__{server}__test_logging_tool", "arguments": {}})
            assert modern.notifications == []
            await quiet.request("ping")
            assert quiet.notifications == []
            opted = {META + "logLevel": "debug"}
            params = {"name": f"mcp__{server}__test_logging_tool", "arguments": {}}
            await modern.modern("tools/call", params, meta=opted)
            assert [n["method"] for n in modern.notifications] == ["notifications/message"]


@pytest.mark.parametrize("server", ["old", "new"])
async def test_progress(agent: Agent, server: str) -> None:
    """It comes under the agent's own token, before the answer."""
    params = {"name": f"mcp__{server}__test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "t"}}
    await agent.request("tools/call", params)
    told = [n["params"] for n in agent.notifications if n["method"] == "notifications/progress"]
    assert [(p["progressToken"], p["progress"]) for p in told] == [("t", 0), ("t", 50), ("t", 100)]
