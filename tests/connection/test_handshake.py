"""The probe and the list performed on an open channel, against servers made of a few lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp_types.methods import validate_client_notification, validate_client_request

from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.connection.handshake import PROBE_LIMIT, Ignored, facts, list_shelf, list_tools, shake_hands
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol.caching import UNSAID
from mcphub.protocol.era import Probe, Refused, Restart, Spoken
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.protocol.paging import MAX_PAGES

pytestmark = pytest.mark.anyio

MODERN, LEGACY = "2026-07-28", "2025-11-25"
SILENCE = object()
Answer = Callable[[str, dict[str, Any]], Any]


class Peer:
    """A server at the other end of a channel: `answer(method, params)` gives a result, JSON text of one, SILENCE, or
    raises JSONRPCError. Checks that it is asked what the official types allow."""

    full = False
    current: int | None = None

    def __init__(self, answer: Answer) -> None:
        self.client = Client(self)
        self.client.use(self)
        self.methods: list[str] = []
        self.ids: list[int] = []
        self._answer = answer
        self._loop = asyncio.get_running_loop()

    def send(self, *parts: Data) -> None:
        message = json.loads(b"".join(parts))
        method, params = message["method"], message.get("params")
        modern = "_meta" in (params or {})
        self.methods.append(method)
        if "id" not in message:
            validate_client_notification(method, MODERN if modern else LEGACY, params)
            return
        self.ids.append(message["id"])
        validate_client_request(method, MODERN if modern else LEGACY, params)
        self._loop.call_soon(self._reply, message["id"], method, params)

    def _reply(self, mid: int, method: str, params: dict[str, Any]) -> None:
        try:
            result = self._answer(method, params)
        except JSONRPCError as e:
            error = {"code": e.code, "message": e.message} | ({"data": e.data} if e.data is not None else {})
            self.say(json.dumps({"jsonrpc": "2.0", "id": mid, "error": error}))
            return
        if result is not SILENCE:
            text = result if isinstance(result, str) else json.dumps(result)
            self.say(f'{{"jsonrpc":"2.0","id":{mid},"result":{text}}}')

    def say(self, text: str) -> None:
        self.client.frame(memoryview(text.encode()))

    def abort(self) -> None:
        self.client.lost("aborted")

    def notified(self, method: str, params: Raw) -> None: ...

    def ended(self, reason: str) -> None: ...

    def noted(self, text: str) -> None: ...

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        return False


def script(**answers: Any) -> Answer:
    """A server by method (`/` as `_`): a value, an exception, or a list of them, the last one repeated."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        found = answers.get(method.replace("/", "_"), JSONRPCError(-32601, "Method not found"))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        return found

    return answer


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "1"}},
}
INITIALIZED = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}


#: Seconds that the probe waits where a test has it meet silence.
QUICK = 0.02


async def shake(answer: Answer, probe: Probe | None = None, limit: float = PROBE_LIMIT) -> tuple[Any, Peer]:
    peer = Peer(answer)
    with anyio.fail_after(5):
        return await shake_hands(peer.client, probe or Probe(), 30, limit), peer


async def test_a_modern_server() -> None:
    """Discover alone; from then on requests are modern."""
    step, peer = await shake(script(server_discover=DISCOVERED))
    assert step == Spoken("modern", MODERN, DISCOVERED)
    assert peer.methods == ["server/discover"]
    assert (peer.client.era, peer.client.version, peer.client.ready) == ("modern", MODERN, True)


@pytest.mark.parametrize("code", [-32601, -32602, -32000, -32603, 5])
async def test_a_legacy_server(code: int) -> None:
    """Discover first, then the handshake and its notification, whatever the code of the refusal."""
    step, peer = await shake(script(server_discover=JSONRPCError(code, "?"), initialize=INITIALIZED))
    assert step == Spoken("legacy", LEGACY, INITIALIZED)
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized"]
    assert (peer.client.era, peer.client.version, peer.client.ready) == ("legacy", LEGACY, True)


async def test_a_silent_legacy_server() -> None:
    """Silence is an answer, after the probe's limit."""
    step, peer = await shake(script(server_discover=SILENCE, initialize=INITIALIZED), limit=QUICK)
    assert step == Spoken("legacy", LEGACY, INITIALIZED)
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize("late", [DISCOVERED, '"x"', "[" * 900 + "]" * 900, "{" + " " * (1 << 20) + "}"])
async def test_a_late_discover(late: Any) -> None:
    """A discover that is answered after initialize went out counts when initialize is refused, and never crashes."""
    peer: Peer

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "server/discover":
            return SILENCE if peer.methods.count(method) == 1 else DISCOVERED
        peer.say(f'{{"jsonrpc":"2.0","id":1,"result":{late if isinstance(late, str) else json.dumps(late)}}}')
        raise JSONRPCError(-32022, "modern only", {"supported": [MODERN], "requested": LEGACY})

    peer = Peer(answer)
    with anyio.fail_after(5):
        step = await shake_hands(peer.client, Probe(), 30, QUICK)
    assert step == Spoken("modern", MODERN, DISCOVERED)
    again = [] if late is DISCOVERED else ["server/discover"]
    assert peer.methods == ["server/discover", "initialize", *again]


async def test_versions_in_common() -> None:
    """A dual server is spoken to in the modern version; one with other versions in a shared one, or not at all."""
    dual = DISCOVERED | {"supportedVersions": [MODERN, LEGACY]}
    assert (await shake(script(server_discover=dual, initialize=INITIALIZED)))[0].era == "modern"
    shared = JSONRPCError(-32022, "no", {"supported": [MODERN], "requested": MODERN})
    step, peer = await shake(script(server_discover=[shared, DISCOVERED]))
    assert (step.era, peer.methods) == ("modern", ["server/discover"] * 2)
    old = JSONRPCError(-32022, "no", {"supported": ["2024-11-05"], "requested": MODERN})
    step, _ = await shake(script(server_discover=old, initialize=INITIALIZED | {"protocolVersion": "2024-11-05"}))
    assert (step.era, step.version) == ("legacy", "2024-11-05")
    none = JSONRPCError(-32022, "no", {"supported": ["2099-01-01"], "requested": MODERN})
    assert (await shake(script(server_discover=none)))[0] == Refused(
        "the server supports 2099-01-01, mcphub none of them"
    )


async def test_a_locked_process() -> None:
    """A process that refuses both is started again, and then spoken to in one era from its first byte."""
    step, peer = await shake(script(initialize=JSONRPCError(-32022, "locked", {"supported": [MODERN]})))
    assert step == Restart("legacy")
    assert not peer.client.ready
    step, peer = await shake(script(initialize=INITIALIZED), Probe(first="legacy", restarted=True))
    assert (step.era, peer.methods[0]) == ("legacy", "initialize")
    step, peer = await shake(script(server_discover=JSONRPCError(-32600, "locked")), Probe(first="modern"))
    assert (step, peer.methods) == (Restart("legacy"), ["server/discover"])


async def test_a_server_that_refuses_everything() -> None:
    """Once started again, a server that still refuses is given up, with both refusals named."""
    step, _ = await shake(script(), Probe(first="legacy", restarted=True))
    assert step == Refused("the server refuses initialize: Method not found (-32601)")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("null", "the answer to initialize is no object"),
        ("[" * 5 + "]" * 5, "the answer to initialize is no object"),
        ('{"a":' + "[" * 900 + "]" * 900 + "}", None),
        ("{" + " " * (1 << 20) + "}", "the answer to initialize is larger than 1 MiB"),
        ('{"protocolVersion":NaN}', "the server's answer cannot be read: not strict JSON"),
    ],
)
async def test_answers_to_initialize_that_are_none(answer: str, says: str | None) -> None:
    """C033: rubbish ends the attempt with what was wrong, at once."""
    try:
        step, _ = await shake(script(initialize=answer))
        assert isinstance(step, Refused)
        assert says is None
    except RemoteProtocolError as e:
        assert says is None or str(e).startswith(says)


@pytest.mark.parametrize("answer", ["null", "5", "{" + " " * (1 << 20) + "}", "{}", '{"supportedVersions":5}'])
async def test_answers_to_discover_that_are_none(answer: str) -> None:
    """What is no DiscoverResult means legacy, like any error."""
    step, _ = await shake(script(server_discover=answer, initialize=INITIALIZED))
    assert step.era == "legacy"


async def test_giving_up_in_the_middle() -> None:
    """C153: a handshake that is cancelled sends no cancel for initialize."""
    peer = Peer(script(initialize=SILENCE))
    with anyio.move_on_after(0.05):
        await shake_hands(peer.client, Probe(), 30)
    assert peer.methods == ["server/discover", "initialize"]


@pytest.mark.parametrize(
    ("era", "result", "expected"),
    [
        ("modern", DISCOVERED | {"instructions": "i"}, ({"name": "new", "version": "1"}, {"tools": {}}, "i")),
        ("legacy", INITIALIZED, ({"name": "old", "version": "1"}, {"tools": {}}, "")),
        ("modern", {"_meta": None, "capabilities": [], "instructions": 5}, ({}, {}, "")),
        ("legacy", {"serverInfo": "x", "capabilities": None}, ({}, {}, "")),
        ("legacy", {}, ({}, {}, "")),
    ],
)
async def test_facts(era: Any, result: dict[str, Any], expected: tuple[Any, Any, str]) -> None:
    """What a server says of itself is kept where it has the right type."""
    found = facts(Spoken(era, MODERN, result), (b"{}",), ("w",))
    assert (found.server_info, found.capabilities, found.instructions) == expected
    assert (found.era, found.tools, found.warnings) == (era, (b"{}",), ("w",))


# --- the list --------------------------------------------------------------------------------------------------------

TOOLS: dict[str, Any] = {"tools": {}}


def page(*names: str, cursor: Any = None, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": n} for n in names]} | ({} if cursor is None else {"nextCursor": cursor}) | more


async def listed(*pages: Any, capabilities: Any = TOOLS) -> tuple[list[str], str, Peer]:
    """The names, why the list is not whole, and the server."""
    peer = Peer(script(tools_list=list(pages)))
    with anyio.fail_after(10):
        listing = await list_tools(peer.client, capabilities, 30)
    return [json.loads(t)["name"] for t in listing.items], listing.cut, peer


@pytest.mark.parametrize("capabilities", [{}, {"prompts": {}}, None, [], "tools"])
async def test_a_server_without_tools(capabilities: Any) -> None:
    """A server that does not offer tools is not asked for them."""
    names, cut, peer = await listed(page("a"), capabilities=capabilities)
    assert (names, cut, peer.methods) == ([], "", [])


@pytest.mark.parametrize(
    ("pages", "names", "warns"),
    [
        ([page("a", "b")], ["a", "b"], ""),
        ([page("a", cursor="1"), page("b", cursor="2"), page("c")], ["a", "b", "c"], ""),
        ([page("a", cursor=""), page("b")], ["a", "b"], ""),
        ([page("a") | {"nextCursor": None}], ["a"], ""),
        ([page("a", cursor='"\u6f22\n'), page("b")], ["a", "b"], ""),
        ([{}], [], ""),
        ([{"tools": None}], [], ""),
        ([{"tools": [], "resultType": "complete", "ttlMs": 5}], [], ""),
        ([page("a", cursor="p")], ["a"], "tools/list was cut short: page 2 names a cursor that was followed"),
        ([page("a", cursor="p"), page("b", cursor="p")], ["a", "b"], "tools/list was cut short: page 2 names a cursor"),
        ([page("a", cursor="")], ["a"], "tools/list was cut short: page 2 names a cursor that was followed"),
        ([page("a", cursor="1"), page(), page(cursor="1")], ["a"], ""),
        ([page(cursor="1"), page(cursor="2"), page("a")], ["a"], ""),
        ([page("a", cursor="1"), JSONRPCError(-32603, "no")], ["a"], "tools/list was cut short: page 2: no"),
        ([page("a", cursor="1"), "[]"], ["a"], "tools/list was cut short: page 2: the answer to tools/list cannot be"),
        ([page("a", ttlMs="x", cacheScope=5)], ["a"], ""),
        ([page("a", _meta={"x": 1}, more=[1])], ["a"], ""),
        ([page("a", cursor=5), page("b")], ["a"], "tools/list was cut short: nextCursor is no string"),
        ([page("a", cursor=[]), page("b")], ["a"], "tools/list was cut short: nextCursor is no string"),
    ],
)
async def test_lists(pages: list[Any], names: list[str], warns: str) -> None:
    """C146, B60: all pages are walked; one that repeats, or names no next one, ends the walk with a word."""
    found, cut, peer = await listed(*pages)
    assert found == names
    assert cut.startswith(warns) and bool(cut) == bool(warns)
    assert len(peer.methods) <= 3


async def test_a_list_without_end() -> None:
    """C146, B60: ever-new cursors, or ever more tools, are asked for only so long."""
    pages = [page(cursor=str(i)) for i in range(1000)]
    _, cut, peer = await listed(*pages)
    assert len(peer.methods) == MAX_PAGES
    assert cut == f"tools/list was cut short: the list has more than {MAX_PAGES} pages"
    pages = [page(*["t"] * 5000, cursor=str(i)) for i in range(10)]
    names, cut, peer = await listed(*pages)
    assert (len(names), len(peer.methods)) == (15_000, 3)
    assert cut == "tools/list was cut short: more than 10000 tools"


@pytest.mark.parametrize(
    "answer", ["null", "[]", '{"tools":{}}', '{"tools":"x"}', "[" * 900 + "]" * 900, '{"tools":' + "[1," * 900 + "1"]
)
async def test_lists_that_are_none(answer: str) -> None:
    """C146: an answer that is no list is a fault of the server, told as such."""
    with pytest.raises(RemoteProtocolError):
        await listed(answer)


async def test_a_list_of_too_many_values() -> None:
    """A page of millions of tiny values is refused before it fills the memory."""
    answer = '{"tools":[' + "1," * 3_000_000 + "1]}"
    start = time.perf_counter()
    with pytest.raises(RemoteProtocolError, match="more values"):
        await listed(answer)
    assert time.perf_counter() - start < 10


async def test_a_list_that_fails() -> None:
    """C146: an error on the first page, or the loss of the server, is an error of the whole list."""
    with pytest.raises(JSONRPCError, match="page 1"):
        await listed(JSONRPCError(-32603, "page 1"))
    peer = Peer(script(tools_list=SILENCE))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_abort_later, peer)
            with pytest.raises(TransportError, match="aborted"):
                await list_tools(peer.client, TOOLS, 30)


async def test_pages_that_take_too_long() -> None:
    """C146: the time is that of all pages together; a first page that does not come is an error, a later one a cut."""
    fresh = iter(range(1000))

    def slowly(method: str, params: dict[str, Any]) -> Any:
        time.sleep(0.01)
        return page(str(number := next(fresh)), cursor=str(number))

    peer = Peer(slowly)
    with anyio.fail_after(5):
        listing = await list_tools(peer.client, TOOLS, 0.1)
    assert listing.cut == "tools/list was cut short: its pages took longer than 0.1 s"
    assert 1 < len(listing.items) < 20
    silent: list[Any] = [page("a", cursor="1"), SILENCE]
    peer = Peer(script(tools_list=silent))
    with anyio.fail_after(5):
        listing = await list_tools(peer.client, TOOLS, 0.1)
    assert (len(listing.items), listing.cut[:34]) == (1, "tools/list was cut short: page 2: ")
    with anyio.fail_after(5), pytest.raises(TransportError) as raised:
        await list_tools(Peer(script(tools_list=SILENCE)).client, TOOLS, 0.1)
    assert raised.value.kind == "timeout"


async def test_how_long_a_list_may_be_kept() -> None:
    """B57: the shortest time of all pages, public only if all are; a legacy server's words mean nothing, and
    neither do those of a list that is not whole."""

    async def kept(*pages: Any, modern: bool = True) -> tuple[float, bool] | None:
        peer = Peer(script(tools_list=list(pages)))
        peer.client.era = "modern" if modern else "legacy"
        peer.client.version = MODERN if modern else LEGACY
        with anyio.fail_after(5):
            freshness = (await list_tools(peer.client, TOOLS, 30)).freshness
        left = freshness.until - asyncio.get_running_loop().time()
        return None if freshness == UNSAID else (round(left, 1), freshness.public)

    public = {"ttlMs": 60_000, "cacheScope": "public"}
    assert await kept(page(**public)) == (60.0, True)
    assert await kept(page(cursor="1", **public), page(ttlMs=5000, cacheScope="public")) == (5.0, True)
    assert await kept(page(cursor="1", ttlMs=5000), page(**public)) == (5.0, False)
    assert await kept(page(cursor="1", **public), page()) == (0.0, False)
    assert await kept(page(ttlMs=-5, cacheScope="all")) == (0.0, False)
    assert await kept(page(cursor="1", **public), JSONRPCError(-32603, "no")) is None
    assert await kept(page(**public), modern=False) is None


async def test_the_other_lists() -> None:
    """One that is not known is empty; one that fails is not there, so that an older one stays; each says why."""
    answers = {
        "prompts_list": JSONRPCError(-32601, "Method not found"),
        "resources_list": JSONRPCError(-32603, "out of order"),
        "resources_templates_list": {"resourceTemplates": [{"uriTemplate": "x:{a}", "name": "x"}]},
    }
    peer = Peer(script(**answers))
    methods = ("prompts/list", "resources/list", "resources/templates/list")
    with anyio.fail_after(5):
        shelf, warnings = await list_shelf(peer.client, {"prompts": {}, "resources": {}}, methods, 5)
    assert {method: len(listing.items) for method, listing in shelf.items()} == {methods[0]: 0, methods[2]: 1}
    assert warnings == ("resources/list was refused: out of order (-32603)",)


async def _abort_later(peer: Peer) -> None:
    await anyio.wait_all_tasks_blocked()
    peer.abort()


async def test_answers_that_are_ignored() -> None:
    """A listen that ends is worth another one; one that is refused is not."""
    ended: list[int] = []
    waiter = Ignored(float("inf"), lambda: ended.append(1))
    waiter.progressed(Raw(b"{}"))
    waiter.unanswered("refused", "x")
    waiter.answered(Envelope(id=1, error=Raw(b"{}")))
    assert ended == []
    waiter.answered(Envelope(id=1, result=Raw(b"{}")))
    assert ended == [1]
    waiter.unanswered("ended", "the stream broke, the connection did not")
    assert ended == [1, 1]
    Ignored(0.0).answered(Envelope(id=1, result=Raw(b"{}")))
