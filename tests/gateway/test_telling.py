"""Which changes are told to whom, and how often."""

from __future__ import annotations

import pytest

from tests.gateway.bench import META, Bench, Server, settle

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

CANCELLED = "notifications/cancelled"
CHANGED = "notifications/tools/list_changed"


async def test_many_changes_are_one_message(bench: Bench) -> None:
    """Ten servers that come up cause one list_changed for each agent that knows another list."""
    old, new, deaf = bench.agent().initialize(), bench.agent(), bench.agent()
    new.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l1")
    new.modern("subscriptions/listen", {"notifications": {"promptsListChanged": True}}, id="l2")
    deaf.modern("subscriptions/listen", {}, id="l3")
    await bench.up(*(Server(f"s{n}") for n in range(10)))
    await settle()
    assert len(old.of(CHANGED)) == 1 and "params" not in old.of(CHANGED)[0]
    [told] = new.of(CHANGED)
    assert told["params"]["_meta"] == {META + "subscriptionId": "l1"}
    assert deaf.of(CHANGED) == []


async def test_who_has_the_new_list_is_not_told(bench: Bench) -> None:
    """Neither an agent that listed meanwhile, nor anybody when the list is what it was."""
    await bench.up(server := Server("s"))
    agent, other = bench.agent().initialize(), bench.agent().initialize()
    server.tools = ("t", "u")
    server.notify(CHANGED, {})
    await bench.until(lambda: len(bench.worker(server).tools) == 2)
    assert len(agent.tools()) == 2
    await settle()
    assert (len(agent.of(CHANGED)), len(other.of(CHANGED))) == (0, 1)
    server.notify(CHANGED, {})
    await server.got("tools/list", 3)
    await settle()
    assert (len(agent.of(CHANGED)), len(other.of(CHANGED))) == (0, 1)


async def test_a_subscription_that_was_given_up(bench: Bench) -> None:
    """It is told nothing; the others of the same agent are."""
    agent = bench.agent()
    wanted = {"notifications": {"toolsListChanged": True}}
    for mid in (1, "1"):
        agent.modern("subscriptions/listen", wanted, id=mid)
    agent.notify(CANCELLED, {"requestId": 1})
    await bench.up(Server("s"))
    await settle()
    assert [m["params"]["_meta"][META + "subscriptionId"] for m in agent.of(CHANGED)] == ["1"]
