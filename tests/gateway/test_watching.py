"""Which agent watches which resource."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest

from mcphub.gateway import watching
from mcphub.sessions.http_session import Exchange
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import Sent, Shelves, legacy, restarted

pytestmark = pytest.mark.anyio

UPDATED = watching.UPDATED
SUBSCRIPTION = META + "subscriptionId"


def listen(agent: Agent, uris: Any, id: Any = "l") -> Message:
    """The filter of the acknowledgement."""
    before = len(agent.got)
    agent.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}, id=id)
    [told] = agent.got[before:]
    assert told["method"] == "notifications/subscriptions/acknowledged"
    assert told["params"]["_meta"][SUBSCRIPTION] == id
    found: Message = told["params"]["notifications"]
    return found


def subscribe(agent: Agent, uri: str, method: str = "subscribe") -> Message:
    return agent.one(f"resources/{method}", {"uri": uri}, id=f"{method} {uri}")


def uris(agent: Agent) -> list[str]:
    return [told["params"]["uri"] for told in agent.of(UPDATED)]


async def test_counted_on_a_legacy_server(shelves: Bench) -> None:
    """Obligation 66: two agents are one subscription there, which ends when both have left it."""
    await shelves.up(server := Shelves("s"))
    one, two = legacy(shelves), shelves.agent()
    assert subscribe(one, "mcphub://s/x:1")["result"] == {}
    assert subscribe(one, "x:1")["result"] == {}
    assert listen(two, ["mcphub://s/x:1"]) == {"resourceSubscriptions": ["mcphub://s/x:1"]}
    assert [m["params"] for m in server.of("resources/subscribe")] == [{"uri": "x:1"}]
    server.notify(UPDATED, {"uri": "x:1"})
    server.notify(UPDATED, {"uri": "x:1/part"})
    assert uris(one) == uris(two) == ["mcphub://s/x:1", "mcphub://s/x:1/part"]
    assert all(told["params"]["_meta"] == {SUBSCRIPTION: "l"} for told in two.of(UPDATED))
    assert all("_meta" not in told["params"] for told in one.of(UPDATED))
    assert subscribe(one, "mcphub://s/x:1", "unsubscribe")["result"] == {}
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
    subscribe(agents[0], "x:1")
    listen(agents[1], ["x:1", "x:1"])
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
        error = subscribe(agent, uri)["error"]
        assert error["code"] == -32602 and error["data"]["dev.mcphub/error"]["kind"] == "not_subscribable"
    asked = ["nope:", "x:1", "mcphub://a/x:1", "mcphub://c/c:1", 5, None, ["x"], {}]
    assert listen(agent, asked) == {"resourceSubscriptions": ["mcphub://a/x:1"]}
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
    assert listen(shelves.agent(), asked) == {}


async def test_ending_what_there_is_not(shelves: Bench) -> None:
    """It is no error, and ends nobody else's."""
    await shelves.up(server := Shelves("s"))
    one, two = legacy(shelves), legacy(shelves)
    subscribe(one, "x:1")
    for uri in ("x:1", "mcphub://s/x:1", "nope:"):
        assert subscribe(two, uri, "unsubscribe")["result"] == {}
    assert server.of("resources/unsubscribe") == []


async def test_ending_by_either_uri(shelves: Bench) -> None:
    """The raw URI ends it too where it can mean one only; the server may be gone from the view by then."""
    await shelves.up(one := Shelves("a"), two := Shelves("b"))
    agent = legacy(shelves)
    for server in ("a", "b"):
        subscribe(agent, f"mcphub://{server}/x:1")
    subscribe(agent, "x:1", "unsubscribe")
    assert one.of("resources/unsubscribe") == two.of("resources/unsubscribe") == []
    shelves.visible = lambda workspace: {"b": two.spec.key()}
    shelves.gateway.refresh()
    subscribe(agent, "mcphub://a/x:1", "unsubscribe")
    subscribe(agent, "x:1", "unsubscribe")
    assert len(one.of("resources/unsubscribe")) == len(two.of("resources/unsubscribe")) == 1


@pytest.mark.parametrize("params", [5, [], {}, {"uri": 5}, {"uri": None}])
async def test_notifications_that_are_none(shelves: Bench, params: Any) -> None:
    """They reach nobody and are counted."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    subscribe(agent, "x:1")
    server.notify(UPDATED, params)
    assert uris(agent) == [] and shelves.gateway.counters["dropped_notifications"] == 1


async def test_a_uri_that_nobody_asked_for(shelves: Bench) -> None:
    """Where one subscription alone can explain it, it is passed on; where several could, it is not."""
    await shelves.up(server := Shelves("s", resources=("x:1", "y:1")))
    agent = legacy(shelves)
    server.notify(UPDATED, {"uri": "x:1"})
    assert uris(agent) == []
    subscribe(agent, "x:1")
    server.notify(UPDATED, {"uri": "z:9"})
    assert uris(agent) == ["mcphub://s/z:9"]
    subscribe(agent, "y:1")
    server.notify(UPDATED, {"uri": "z:9"})
    assert uris(agent) == ["mcphub://s/z:9"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_gap(shelves: Bench, era: str) -> None:
    """Obligation 67: after a restart each URI is subscribed to again, and told of once."""
    await shelves.up(server := Shelves("s", era=era, resources=("x:1", "y:1")))
    one, two = legacy(shelves), shelves.agent()
    subscribe(one, "x:1")
    listen(two, ["x:1", "y:1"])
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
    subscribe(agent, "x:1")
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
    assert ["error" in subscribe(one, f"mcphub://s/{n}") for n in range(3)] == [False, False, True]
    assert "error" not in subscribe(two, "mcphub://s/9")
    assert listen(shelves.agent(), [f"mcphub://s/{n}" for n in range(9)]) == {
        "resourceSubscriptions": ["mcphub://s/0", "mcphub://s/1"]
    }


async def test_a_changed_entry(shelves: Bench) -> None:
    """The instance that takes its place is watched instead, and what may have been missed is told of."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    subscribe(agent, "x:1")
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
    assert len(sent.got) == 1
    server.notify(UPDATED, {"uri": "x:1"})
    assert uris(agent) == ["mcphub://s/x:1"] and len(sent.got) == 1
    agent.leave()
    assert len(server.of("resources/unsubscribe")) == 1
