"""Which agent watches which resource."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.gateway import watching
from mcphub.sessions.http_session import Exchange
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import Sent, Shelves, legacy, restarted

pytestmark = pytest.mark.anyio

UPDATED = watching.UPDATED
SUBSCRIPTION = META + "subscriptionId"


def listening(uris: Any) -> Message:
    return {"notifications": {"resourceSubscriptions": uris}}


async def first(agent: Agent, ask: Callable[..., Any], *request: Any, id: Any) -> Message:
    """The first message that comes after a request was sent."""
    before = len(agent.got)
    ask(*request, id=id)
    await filled(agent.got, before + 1)
    found: Message = agent.got[before]
    return found


async def filled(got: list[Any], number: int) -> None:
    with anyio.fail_after(5):
        while len(got) < number:
            await anyio.lowlevel.checkpoint()


async def listen(agent: Agent, uris: Any, id: Any = "l") -> Message:
    """The filter of the acknowledgement."""
    told = await first(agent, agent.modern, "subscriptions/listen", listening(uris), id=id)
    assert told["method"] == "notifications/subscriptions/acknowledged"
    assert told["params"]["_meta"][SUBSCRIPTION] == id
    found: Message = told["params"]["notifications"]
    return found


async def subscribe(agent: Agent, uri: str, method: str = "subscribe") -> Message:
    answer = await first(agent, agent.ask, f"resources/{method}", {"uri": uri}, id=f"{method} {uri}")
    assert answer["id"] == f"{method} {uri}"
    return answer


def uris(agent: Agent) -> list[str]:
    return [told["params"]["uri"] for told in agent.of(UPDATED)]


async def test_counted_on_a_legacy_server(shelves: Bench) -> None:
    """B66: two agents are one subscription there, which ends when both have left it."""
    await shelves.up(server := Shelves("s"))
    one, two = legacy(shelves), shelves.agent()
    assert (await subscribe(one, "mcphub://s/x:1"))["result"] == {}
    assert (await subscribe(one, "x:1"))["result"] == {}
    assert await listen(two, ["mcphub://s/x:1"]) == {"resourceSubscriptions": ["mcphub://s/x:1"]}
    assert [m["params"] for m in server.of("resources/subscribe")] == [{"uri": "x:1"}]
    server.notify(UPDATED, {"uri": "x:1"})
    server.notify(UPDATED, {"uri": "x:1/part"})
    assert uris(one) == uris(two) == ["mcphub://s/x:1", "mcphub://s/x:1/part"]
    assert all(told["params"]["_meta"] == {SUBSCRIPTION: "l"} for told in two.of(UPDATED))
    assert all("_meta" not in told["params"] for told in one.of(UPDATED))
    assert (await subscribe(one, "mcphub://s/x:1", "unsubscribe"))["result"] == {}
    assert server.of("resources/unsubscribe") == []
    server.notify(UPDATED, {"uri": "x:1"})
    assert len(uris(one)) == 2 and len(uris(two)) == 3
    two.notify("notifications/cancelled", {"requestId": "l"})
    assert [m["params"] for m in server.of("resources/unsubscribe")] == [{"uri": "x:1"}]
    server.notify(UPDATED, {"uri": "x:1"})
    assert len(uris(two)) == 3


async def test_counted_on_a_modern_server(shelves: Bench) -> None:
    """There it is one listen request, cancelled when the last agent is gone."""
    await shelves.up(server := Shelves("s", era="modern"))
    agents = [legacy(shelves), shelves.agent()]
    await subscribe(agents[0], "x:1")
    await listen(agents[1], ["x:1", "x:1"])
    wanted = [m for m in server.of("subscriptions/listen") if "resourceSubscriptions" in m["params"]["notifications"]]
    [request] = wanted
    assert request["params"]["notifications"] == {"resourceSubscriptions": ["x:1"]}
    server.notify(UPDATED, {"uri": "x:1", "_meta": {SUBSCRIPTION: request["id"]}})
    assert uris(agents[0]) == uris(agents[1]) == ["mcphub://s/x:1"]
    for agent in agents:
        agent.leave()
    assert [m["params"]["requestId"] for m in server.of("notifications/cancelled")] == [request["id"]]


async def test_what_nobody_can_tell_of(shelves: Bench) -> None:
    """An unknown URI, one of two servers, and one of a server that does not offer it: refused, or not acknowledged."""
    await shelves.up(Shelves("a"), Shelves("b"), none := Shelves("c", offers={"resources": {}}, resources=("c:1",)))
    agent = legacy(shelves)
    for uri in ("nope:", "x:1", "mcphub://c/c:1", "c:1", "mcphub://d/x:1", "", "x" * 100_000):
        error = (await subscribe(agent, uri))["error"]
        assert error["code"] == -32602 and error["data"]["dev.mcphub/error"]["kind"] == "not_subscribable"
    asked = ["nope:", "x:1", "mcphub://a/x:1", "mcphub://c/c:1", 5, None, ["x"], {}]
    assert await listen(agent, asked) == {"resourceSubscriptions": ["mcphub://a/x:1"]}
    assert none.of("resources/subscribe") == []


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}, {"uri": None}, {"uri": ["x:1"]}])
async def test_params_that_are_none(shelves: Bench, params: Any) -> None:
    """They are refused."""
    await shelves.up(Shelves("s"))
    agent = legacy(shelves)
    for method in ("resources/subscribe", "resources/unsubscribe"):
        assert agent.error(method, params)[0] == -32602


@pytest.mark.parametrize("asked", [5, None, "x:1", {"x:1": True}, [], [[]], True])
async def test_filters_that_are_none(shelves: Bench, asked: Any) -> None:
    """They ask for nothing."""
    await shelves.up(Shelves("s"))
    assert await listen(shelves.agent(), asked) == {}


async def test_ending_what_there_is_not(shelves: Bench) -> None:
    """It is no error, and ends nobody else's."""
    await shelves.up(server := Shelves("s"))
    one, two = legacy(shelves), legacy(shelves)
    await subscribe(one, "x:1")
    for uri in ("x:1", "mcphub://s/x:1", "nope:"):
        assert (await subscribe(two, uri, "unsubscribe"))["result"] == {}
    assert server.of("resources/unsubscribe") == []


async def test_ending_by_either_uri(shelves: Bench) -> None:
    """The raw URI ends it too where it can mean one only; the server may be gone from the view by then."""
    await shelves.up(one := Shelves("a"), two := Shelves("b"))
    agent = legacy(shelves)
    for server in ("a", "b"):
        await subscribe(agent, f"mcphub://{server}/x:1")
    await subscribe(agent, "x:1", "unsubscribe")
    assert one.of("resources/unsubscribe") == two.of("resources/unsubscribe") == []
    shelves.visible = lambda workspace: {"b": two.spec.key()}
    shelves.gateway.refresh()
    await subscribe(agent, "mcphub://a/x:1", "unsubscribe")
    await subscribe(agent, "x:1", "unsubscribe")
    assert len(one.of("resources/unsubscribe")) == len(two.of("resources/unsubscribe")) == 1


@pytest.mark.parametrize("params", [5, [], {}, {"uri": 5}, {"uri": None}])
async def test_notifications_that_are_none(shelves: Bench, params: Any) -> None:
    """They reach nobody and are counted."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    await subscribe(agent, "x:1")
    server.notify(UPDATED, params)
    assert uris(agent) == [] and shelves.gateway.counters["dropped_notifications"] == 1


async def test_a_uri_that_nobody_asked_for(shelves: Bench) -> None:
    """Where one subscription alone can explain it, it is passed on; where several could, it is not."""
    await shelves.up(server := Shelves("s", resources=("x:1", "y:1")))
    agent = legacy(shelves)
    server.notify(UPDATED, {"uri": "x:1"})
    assert uris(agent) == []
    await subscribe(agent, "x:1")
    server.notify(UPDATED, {"uri": "z:9"})
    assert uris(agent) == ["mcphub://s/z:9"]
    await subscribe(agent, "y:1")
    server.notify(UPDATED, {"uri": "z:9"})
    assert uris(agent) == ["mcphub://s/z:9"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_gap(shelves: Bench, era: str) -> None:
    """B67: after a restart each URI is subscribed to again, and told of once."""
    await shelves.up(server := Shelves("s", era=era, resources=("x:1", "y:1")))
    one, two = legacy(shelves), shelves.agent()
    await subscribe(one, "x:1")
    await listen(two, ["x:1", "y:1"])
    server.messages.clear()
    await restarted(shelves, server)
    await shelves.until(lambda: len(uris(two)) == 2)
    assert uris(one) == ["mcphub://s/x:1"] and sorted(uris(two)) == ["mcphub://s/x:1", "mcphub://s/y:1"]
    if era == "legacy":
        again = [m["params"]["uri"] for m in server.of("resources/subscribe")]
    else:
        filters = [m["params"]["notifications"] for m in server.of("subscriptions/listen")]
        again = [uri for f in filters for uri in f.get("resourceSubscriptions", [])]
    assert sorted(again) == ["x:1", "y:1"]
    server.notify(UPDATED, {"uri": "y:1"})
    assert len(uris(two)) == 3 and len(uris(one)) == 1


async def test_a_listen_that_the_server_ends(shelves: Bench) -> None:
    """It is asked for again, and what may have been missed is told of; after a refusal it is not."""
    await shelves.up(server := Shelves("s", era="modern"))
    agent = legacy(shelves)
    before = len(server.of("subscriptions/listen"))
    await subscribe(agent, "x:1")
    request = await server.got("subscriptions/listen", before + 1)
    server.result(request["id"], {"resultType": "complete"})
    with anyio.fail_after(5):
        request = await server.got("subscriptions/listen", before + 2)
    assert uris(agent) == ["mcphub://s/x:1"]
    server.refuse(request, -32603, "no more")
    server.notify(UPDATED, {"uri": "x:1"})
    assert len(uris(agent)) == 2 and len(server.of("subscriptions/listen")) == before + 2


async def test_only_so_many(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that watches too much is refused; another one is not."""
    monkeypatch.setattr(watching, "MAX_WATCHED", 2)
    await shelves.up(Shelves("s"))
    one, two = legacy(shelves), legacy(shelves)
    assert ["error" in (await subscribe(one, f"mcphub://s/{n}")) for n in range(3)] == [False, False, True]
    assert "error" not in (await subscribe(two, "mcphub://s/9"))
    assert await listen(shelves.agent(), [f"mcphub://s/{n}" for n in range(9)]) == {
        "resourceSubscriptions": ["mcphub://s/0", "mcphub://s/1"]
    }


async def test_a_changed_entry(shelves: Bench) -> None:
    """The instance that takes its place is watched instead, and what may have been missed is told of."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    await subscribe(agent, "x:1")
    old = server.spec.key()

    class Changed(Shelves):
        @property
        def spec(self) -> Any:
            return replace(super().spec, startup_timeout=17.0)

    new = Changed("s")
    assert new.spec.key() != old
    await shelves.up(new)
    await shelves.until(lambda: bool(uris(agent)))
    await new.got("resources/subscribe")
    new.notify(UPDATED, {"uri": "x:1"})
    assert uris(agent) == ["mcphub://s/x:1"] * 2


async def test_a_request_that_stands_for_an_agent(shelves: Bench) -> None:
    """Over HTTP the answer to `resources/subscribe` ends; what is watched is told to the session."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    sent = Sent()
    line = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}}
    Exchange(agent.session, sent).frame(memoryview(json.dumps(line).encode()))
    await filled(sent.got, 1)
    server.notify(UPDATED, {"uri": "x:1"})
    assert uris(agent) == ["mcphub://s/x:1"] and len(sent.got) == 1
    agent.leave()
    assert len(server.of("resources/unsubscribe")) == 1


# -- an agent is told that it has subscribed once the server has said so


async def begun(server: Shelves, agent: Agent, era: str) -> Message:
    """A subscription that the server has and has not answered; its agent waits."""
    server.takes = False
    if era == "legacy":
        assert agent.ask("resources/subscribe", {"uri": "x:1"}, id="s") == []
        return await server.got("resources/subscribe")
    before = len(server.of("subscriptions/listen"))
    assert agent.modern("subscriptions/listen", listening(["x:1"]), id="s") == []
    return await server.got("subscriptions/listen", before + 1)


def take(server: Shelves, request: Message) -> None:
    if request["method"] == "resources/subscribe":
        server.result(request["id"], {})
    else:
        server.acknowledge(request)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_answer_waits_for_the_server(shelves: Bench, era: str) -> None:
    """What changes after an agent was told that it watches is told: the server's word comes first."""
    await shelves.up(server := Shelves("s", era=era))
    agent = legacy(shelves) if era == "legacy" else shelves.agent()
    before = len(agent.got)
    request = await begun(server, agent, era)
    take(server, request)
    assert len(agent.got) == before + 1
    other = legacy(shelves)
    assert other.one("resources/subscribe", {"uri": "x:1"})["result"] == {}  # nothing is waited for twice


@pytest.mark.parametrize("how", ["refuse", "leave out"])
async def test_the_answer_of_a_server_that_does_not_take_it(
    shelves: Bench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """One that refuses, or does not answer, holds nobody."""
    monkeypatch.setattr(watching, "TAKEN", 60.0 if how == "refuse" else 0.01)
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    before = len(agent.got)
    request = await begun(server, agent, "legacy")
    if how == "refuse":
        server.refuse(request, -32603, "not now")
    await filled(agent.got, before + 1)
    assert agent.got[before]["result"] == {}


async def test_a_change_before_the_acknowledgement(shelves: Bench) -> None:
    """It is told after it: the acknowledgement is the first message of a listen."""
    await shelves.up(server := Shelves("s", era="modern"))
    first, agent = legacy(shelves), shelves.agent()
    server.takes = False
    first.ask("resources/subscribe", {"uri": "x:1"})
    request = server.of("subscriptions/listen")[-1]
    agent.modern("subscriptions/listen", listening(["x:1"]), id="s")
    server.notify(UPDATED, {"uri": "x:1"})
    assert agent.got == []
    take(server, request)
    assert [m["method"] for m in agent.got] == ["notifications/subscriptions/acknowledged", UPDATED]
    assert uris(first) == ["mcphub://s/x:1"]


@pytest.mark.parametrize("how", ["cancel", "leave"])
async def test_the_end_of_what_has_not_begun(shelves: Bench, how: str) -> None:
    """Who takes it back, or leaves, is told nothing; the server's subscription ends."""
    await shelves.up(server := Shelves("s", era="modern"))
    agent = shelves.agent()
    request = await begun(server, agent, "modern")
    if how == "cancel":
        agent.notify("notifications/cancelled", {"requestId": "s"})
    else:
        agent.leave()
    assert [m["params"]["requestId"] for m in server.of("notifications/cancelled")] == [request["id"]]
    take(server, request)
    assert agent.got == []


async def test_an_id_that_has_not_begun(shelves: Bench) -> None:
    """It is in flight: a second request under it is refused."""
    await shelves.up(server := Shelves("s", era="modern"))
    agent = shelves.agent()
    await begun(server, agent, "modern")
    [refused] = agent.modern("subscriptions/listen", listening([]), id="s")
    assert refused["error"]["code"] == -32600
