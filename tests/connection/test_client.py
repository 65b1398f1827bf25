"""One open channel to a server: what goes out, who gets what comes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcphub.channel import Data
from mcphub.connection import client as module
from mcphub.connection.client import Client, Reply
from mcphub.connection.held import Held
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol.envelope import HUB_META
from mcphub.protocol.jsonrpc import Envelope, Raw
from tests.fakes.channel import Heard, KeptChannel

pytestmark = pytest.mark.anyio


class Call:
    """A waiter that keeps what it is told."""

    def __init__(self, deadline: float = float("inf"), idle: float = 600.0) -> None:
        self.deadline = deadline
        self.hard = float("inf")
        self.idle = idle
        self.told: list[Any] = []
        self.done = anyio.Event()

    def answered(self, env: Envelope) -> None:
        self.told.append(bytes(env.result or env.error))
        self.done.set()

    def unanswered(self, kind: str, message: str) -> None:
        self.told.append((kind, message))
        self.done.set()

    def progressed(self, params: Raw) -> None:
        self.told.append(bytes(params))


def opened(era: str = "legacy", version: str = "2025-11-25", ready: bool = True) -> tuple[Client, KeptChannel, Heard]:
    heard, wire = Heard(), KeptChannel()
    client = Client(heard, b'[{"uri":"file:///w"}]')
    client.use(wire)
    client.era, client.version, client.ready = era, version, ready  # type: ignore[assignment]
    return client, wire, heard


def say(client: Client, *lines: str | bytes | dict[str, Any]) -> None:
    for line in lines:
        data = json.dumps({"jsonrpc": "2.0"} | line) if isinstance(line, dict) else line
        client.frame(memoryview(data.encode() if isinstance(data, str) else data))


def call(client: Client, waiter: Call | None = None, arguments: bytes = b"{}") -> Call:
    waiter = waiter or Call()
    client.call_tool(waiter, b'"t"', arguments, b"")
    return waiter


# --- too long ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "which"),
    [
        (b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"xxx', [2]),
        (b'{"jsonrpc": "2.0", "id": "2", "error": {"message": "xxx', [2]),
        (b'{"jsonrpc":"2.0","id":9,"result":{"x', [1, 2]),
        (b'{"result":{"content":[{"type":"text","text":"xxx', [1, 2]),
        (b"xxxxxxxx", [1, 2]),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"xxx', []),
    ],
)
async def test_an_answer_that_was_thrown_away(head: bytes, which: list[int]) -> None:
    """C049: whose answer it was is read from its beginning; where that does not say, nobody who waits may wait on."""
    client, _, heard = opened()
    waiters = [call(client), call(client)]
    client.too_long(head, "a line is longer than 64 MiB")
    assert [number for number, waiter in enumerate(waiters, 1) if waiter.told] == which
    assert {told for waiter in waiters for told in waiter.told} <= {("unreadable", "a line is longer than 64 MiB")}
    assert client.calls == 2 - len(which)
    assert not client.over
    assert client.counters["too_long"] == 1


# --- out -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, module.LARGE])
@pytest.mark.parametrize("tail", [b"", b',"_meta":{"progressToken":1}'])
async def test_a_call_on_the_wire(size: int, tail: bytes) -> None:
    """Arguments arrive byte by byte; large ones are not copied into the frame."""
    client, wire, _ = opened()
    arguments = b'{"a" : 1e2, "b":"%b"}' % (b"x" * size)
    assert client.next_id() == 1
    assert client.call_tool(Call(), b'"q\\"\xe6\xbc\xa2"', memoryview(arguments), tail) == 1
    assert client.next_id() == 2
    (sent,) = wire.sent
    assert sent["params"] == {"name": 'q"\u6f22', "arguments": json.loads(arguments)} | json.loads(
        b"{%b}" % tail.removeprefix(b",")
    )
    assert (sent["id"], sent["method"]) == (1, "tools/call")
    assert arguments in wire.frames[0]
    assert (wire.parts[0] > 1) == bool(size)


async def test_requests_of_the_hub_in_each_era() -> None:
    """A modern request has the hub's meta, a legacy one none."""
    client, wire, _ = opened("modern")
    client.start(Call(), "tools/list")
    client.start(Call(), "tools/list", b'"cursor":""')
    client.era = "legacy"
    client.start(Call(), "tools/list", b'"cursor":""')
    client.notify("notifications/initialized")
    meta = json.loads(b"{%b}" % HUB_META)
    assert [m.get("params") for m in wire.sent] == [
        {"_meta": meta},
        {"cursor": "", "_meta": meta},
        {"cursor": ""},
        None,
    ]
    assert client.calls == 4 - 1


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_many_calls_in_any_order() -> None:
    """Each answer reaches its own call, once, whatever order they come in."""
    client, _, _ = opened()
    waiters = [call(client) for _ in range(100)]
    for i in reversed(range(100)):
        say(client, {"id": i + 1, "result": {"n": i}})
    assert [json.loads(w.told[0])["n"] for w in waiters] == list(range(100))
    say(client, {"id": 5, "result": {}})
    assert len(waiters[4].told) == 1
    assert client.counters == {"unknown_replies": 1}
    assert client.calls == 0


async def test_odd_ids() -> None:
    """C058: "7" and 7.0 are 7, with a word; "07", null and none are nobody's, though only one call waits."""
    client, _, heard = opened()
    for _ in range(7):
        waiter = call(client)
    say(
        client,
        {"id": "07", "result": {}},
        {"result": {}},
        {"id": None, "error": {"code": -32700, "message": "huh"}},
        {"id": None, "result": {}},
        {"id": 10**30, "result": {}},
        {"id": "9" * 5000, "result": {}},
    )
    assert waiter.told == []
    assert client.counters["unknown_replies"] == 6
    assert heard.notes[0] == "an error without an id: huh (-32700)"
    say(client, {"id": "7", "result": {}})
    assert waiter.told == [b"{}"]
    assert heard.notes[-1] == "answered with the id as a string: '7'"
    say(client, '{"jsonrpc":"2.0","id":6.0,"result":[]}')
    assert client.counters["id_type"] == 1
    assert client.calls == 5


async def test_answers_that_cannot_be_read() -> None:
    """C054: an answer that is not strict JSON ends its call at once, with the reason; the others wait on."""
    client, _, heard = opened()
    nan, latin, other = call(client), call(client), call(client)
    say(client, '{"jsonrpc":"2.0","id":1,"result":{"v":NaN}}', b'{"jsonrpc":"2.0","id":2,"result":"\xe9"}')
    assert nan.told == [("unreadable", "not strict JSON: NaN is not JSON")]
    assert latin.told == [("unreadable", "invalid UTF-8 at byte 34")]
    assert other.told == []
    assert len(heard.notes) == 2
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            raised: list[Exception] = []

            async def ask() -> None:
                try:
                    await client.request("tools/list", timeout=30)
                except RemoteProtocolError as e:
                    raised.append(e)

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            say(client, '{"result":NaN,"id":4,"jsonrpc":"2.0"}')
    assert str(raised[0]) == "the server's answer cannot be read: not strict JSON: NaN is not JSON"


async def test_requests_that_are_awaited() -> None:
    """The result comes as bytes; an error with its code and data; a loss with its reason; silence with a cancel."""
    client, wire, _ = opened()
    deep = '{"code":1,"message":"deep","data":' + "[" * 100_000 + "]" * 100_000 + "}"

    async def ask(answer: Callable[[int], Any], timeout: float = 30) -> bytes:
        found: list[Any] = []

        async def asking() -> None:
            try:
                found.append(await client.request("x", timeout=timeout))
            except (JSONRPCError, TransportError, RemoteProtocolError) as e:
                found.append(e)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(asking)
                await anyio.wait_all_tasks_blocked()
                answer(client.next_id() - 1)
        if isinstance(found[0], Exception):
            raise found[0]
        assert isinstance(found[0], bytes)
        return found[0]

    assert await ask(lambda i: say(client, {"id": i, "result": {"a": 1}})) == b'{"a": 1}'
    with pytest.raises(JSONRPCError) as refused:
        await ask(
            lambda i: say(client, {"id": i, "error": {"code": -32022, "message": "no", "data": {"supported": []}}})
        )
    assert (refused.value.code, refused.value.message, refused.value.data) == (-32022, "no", {"supported": []})
    with pytest.raises(JSONRPCError) as refused:
        await ask(lambda i: say(client, {"id": i, "error": {"code": 1, "message": "", "data": ["x" * 100_000]}}))
    assert refused.value.data is None
    with pytest.raises(RemoteProtocolError, match="nested too deeply"):
        await ask(lambda i: say(client, f'{{"jsonrpc":"2.0","id":{i},"error":{deep}}}'))
    wire.frames.clear()
    with pytest.raises(TransportError) as silent:
        await ask(lambda _: None, 0.01)
    assert silent.value.kind == "timeout"
    assert [m["method"] for m in wire.sent] == ["x", "notifications/cancelled"]
    with pytest.raises(TransportError, match="exited") as gone:
        await ask(lambda _: client.lost("exited"))
    assert gone.value.kind == "lost"
    for attempt in (client.request("x", timeout=1), client.probe(b"", 1, Call())):
        with pytest.raises(TransportError, match="exited"):
            await attempt


@pytest.mark.parametrize(("method", "cancelled"), [("tools/list", True), ("initialize", False)])
async def test_giving_up_a_request(method: str, cancelled: bool) -> None:
    """C153: the server is told once, with its own id; initialize is never cancelled."""
    client, wire, _ = opened()
    with anyio.move_on_after(0.01):
        await client.request(method, timeout=30)
    assert [m.get("params") for m in wire.sent[1:]] == (
        [{"requestId": 1, "reason": "no longer needed"}] if cancelled else []
    )
    say(client, {"id": 1, "result": {}})
    assert client.counters["unknown_replies"] == 1


async def test_cancel_once() -> None:
    """C153, C154: one cancel for a call that waits, none for one that was answered; what comes late is dropped."""
    client, wire, _ = opened()
    waiter = call(client)
    assert client.withdraw(1, 'enough "of it"')
    assert not client.withdraw(1, "again")
    assert wire.sent[1]["params"] == {"requestId": 1, "reason": 'enough "of it"'}
    say(client, {"id": 1, "result": {}})
    assert waiter.told == []
    call(client)
    say(client, {"id": 2, "error": {"code": 1, "message": "cancelled"}})
    assert not client.withdraw(2, "late")
    assert len(wire.frames) == 3


async def test_who_withdrew_last_is_known_while_it_is_open() -> None:
    """Its server may not know of it yet; what knows its connection is not kept beyond the end of that."""
    client, _, _ = opened()
    waiter = call(client)
    assert not client.unread(60)
    client.withdraw(1, "enough")
    assert [one.waiter for one in client.unread(60)] == [waiter]
    client.lost("gone")
    assert not client.unread(60)


async def test_what_shows_that_it_was_read() -> None:
    """Behind an agent's request that was withdrawn goes a ping on a byte stream, one at a time, however answered."""
    client, wire, _ = opened()
    call(client)
    client.withdraw(1, "over HTTP, say")
    assert len(wire.sent) == 2 and len(client.unread(60)) == 1 and client.unread(0) == []
    client, wire, _ = opened()
    client.in_order = True
    for _ in range(3):
        call(client)
    client.withdraw(1, "enough")
    client.withdraw(2, "enough")
    assert [message["method"] for message in wire.sent[3:]] == [
        "notifications/cancelled", "ping", "notifications/cancelled",
    ]  # fmt: skip
    say(client, {"id": 4, "error": {"code": -32601, "message": "what is a ping?"}})
    assert [one.mid for one in client.unread(60)] == [2]
    assert (wire.sent[-1]["id"], wire.sent[-1]["method"]) == (5, "ping")
    say(client, {"id": 5, "result": {}})
    assert client.unread(60) == [] and len(wire.sent) == 7 and client.calls == 1
    client.withdraw(client.start(Reply(1.0), "tools/list"), "of the hub's own, which makes no server ask")
    assert wire.sent[-1]["method"] == "notifications/cancelled"
    client, wire, _ = opened("modern", "2026-07-28")
    client.in_order = True
    call(client)
    client.withdraw(1, "enough")
    assert wire.sent[-1]["method"] == "notifications/cancelled" and client.unread(60) == []


async def test_what_was_withdrawn_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a server reads in no known order it is forgotten after a while, though nothing more is withdrawn."""
    monkeypatch.setattr(module, "LONG_AGO", 0.02)
    client, _, _ = opened()
    call(client)
    call(client)
    client.withdraw(1, "enough")
    client.withdraw(2, "enough")
    assert len(client.unread(60)) == 2
    with anyio.fail_after(5):
        while client.withdrew:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    call(client)
    client.withdraw(3, "enough")
    assert len(client.unread(60)) == 1
    client.lost("")


async def test_late_answers_of_what_was_withdrawn() -> None:
    """Its server is done with that; and behind requests that were too late goes a ping as well."""
    client, wire, _ = opened()
    client.in_order = True
    call(client)
    client.withdraw(1, "enough")
    say(client, {"id": 1, "result": {}})
    assert client.unread(60) == []
    say(client, {"id": 2, "result": {}})
    call(client, Call(deadline=0.0))
    with anyio.fail_after(5):
        while wire.sent[-1].get("method") != "ping":  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert [one.mid for one in client.unread(60)] == [3]


async def test_deadlines() -> None:
    """C153, C156: a call past its deadline is told so, its server too; one with progress goes on."""
    client, wire, _ = opened()
    now = anyio.current_time()
    late, moved = Call(now + 0.01), Call(now + 0.01)
    call(client, late)
    call(client, moved)
    say(client, {"method": "notifications/progress", "params": {"progressToken": 2, "progress": 1}})
    assert moved.deadline > now + 500
    with anyio.fail_after(5):
        await late.done.wait()
    assert late.told == [("timeout", "no answer in time")]
    assert len(moved.told) == 1
    assert wire.sent[-1]["params"]["requestId"] == 1
    assert client.counters["timeouts"] == 1


async def test_the_end() -> None:
    """C091: all that wait are told at once, and the listener once."""
    client, _, heard = opened()
    waiters = [call(client) for _ in range(5)]
    client.gone = "it was removed"
    client.lost("reset")
    assert [w.told for w in waiters] == [[("lost", "it was removed")]] * 5
    assert heard.ends == ["it was removed"]
    assert client.over
    client2, _, _ = opened()
    waiter = call(client2)
    client2.lost("")
    assert waiter.told == [("lost", "the server closed the connection")]


async def test_the_end_of_a_program() -> None:
    """An agent's call is told how its program ended once that is known, a request of the hub's own at once; where
    nobody says it in time, the call is told where to look."""
    told = []
    for says in (True, False):
        client, _, heard = opened()
        client.parting = "see the log"
        agents, own = call(client), call(client, Call(idle=0.0))
        client.lost("")
        assert client.over and heard.ends == [""]
        assert own.told == [("lost", "the server closed the connection")]
        assert agents.told == [] and client.calls == 1
        if says:
            client.bury("it exited with code 3")
        with anyio.fail_after(5):
            await agents.done.wait()
        client.bury("too late")
        told += agents.told
    assert told == [("lost", "it exited with code 3"), ("lost", "see the log")]


async def test_an_end_that_has_its_reason() -> None:
    """Where mcphub itself ends a program, or before it serves, nobody waits for word of how it ended."""
    for gone, ready in (("it was removed", True), ("", False)):
        client, _, _ = opened(ready=ready)
        client.parting, client.gone = "see the log", gone
        waiter = call(client)
        client.lost("")
        assert waiter.told == [("lost", gone or "the server closed the connection")]


# --- the probe -------------------------------------------------------------------------------------------------------


async def test_probe() -> None:
    """A discover is answered in time, or its answer goes to whoever waits for late ones."""
    client, wire, _ = opened(ready=False)
    late = Call(idle=0)
    assert await client.probe(b'"a":1', 0.01, late) is None
    assert (wire.sent[0]["method"], wire.sent[0]["params"]) == ("server/discover", {"a": 1})
    say(client, {"id": 1, "result": {"x": 1}})
    assert late.told == [b'{"x": 1}']
    assert len(wire.frames) == 1
    assert client.calls == 0


async def test_progress_for_what_has_no_clock() -> None:
    """A server that sends progress for a request of ours that waits for ever does not end it."""
    client, wire, _ = opened()
    client.start(listen := Call(idle=0), "subscriptions/listen")
    say(client, {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})
    assert listen.deadline == float("inf")
    assert len(wire.frames) == 1


# --- what a server says by itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "counter"),
    [
        ('{"progressToken":9,"progress":1}', "late_progress"),
        ('{"progressToken":"01","progress":1}', "late_progress"),
        ('{"progressToken":"9","progress":1}', "late_progress"),
        ('{"progressToken":null}', "bad_progress"),
        ('{"progressToken":1.5}', "bad_progress"),
        ('{"progressToken":true}', "bad_progress"),
        ('{"progress":1}', "bad_progress"),
        ("[1]", "bad_progress"),
        ("null", "bad_progress"),
        ('{"progressToken":' + "9" * 5000 + "}", "bad_progress"),
    ],
)
async def test_progress_for_nobody(params: str, counter: str) -> None:
    """C156: progress with an unknown or odd token is counted and dropped."""
    client, _, heard = opened()
    waiter = call(client)
    say(client, f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}')
    say(client, {"method": "notifications/progress"})
    assert waiter.told == []
    assert client.counters[counter] >= 1
    assert sum(client.counters.values()) == 2
    assert heard.news == []


async def test_progress_whose_token_came_back_as_a_string() -> None:
    """C156: it is taken as an answer with such an id is, and noted."""
    client, _, heard = opened()
    waiter = call(client)
    say(client, {"method": "notifications/progress", "params": {"progressToken": "1", "progress": 1}})
    assert waiter.told == [b'{"progressToken": "1", "progress": 1}']
    assert client.counters == {"id_type": 1}
    assert heard.notes == ["sent progress with the token as a string: '1'"]


@pytest.mark.parametrize("progress", ['"x"', "1e999", "-1e999", "1" * 400, "null", "true", "[1]", "[" * 5000])
async def test_progress_that_is_no_number(progress: str) -> None:
    """C156: it is counted and goes to nobody, but its server lives."""
    client, _, _ = opened()
    waiter = call(client)
    params = f'{{"progressToken":1,"progress":{progress}}}'
    line = f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}'
    before, signs = waiter.deadline, client.signs
    say(client, line)
    assert waiter.told == [] and sum(client.counters.values()) == 1
    if progress[:2] != "[[":
        assert client.counters["bad_progress"] == 1
        assert waiter.deadline >= before and client.signs == signs + 1


async def test_half_a_surrogate_pair() -> None:
    """C058: each message in which one was replaced is counted, and the first one told; a whole pair is none."""
    client, _, heard = opened()
    waiter, other = call(client), call(client)
    say(client, '{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud83d\\ude00","b":"\\ud83d"}}')
    say(client, '{"jsonrpc":"2.0","method":"x","params":{"a":"\\ude00"}}')
    say(client, '{"jsonrpc" : "2.0","id":2,"result":{"a":"\\ud83d\\ude00"}}')
    assert waiter.told == [b'{"a":"\\ud83d\\ude00","b":"\\ufffd"}'] and len(other.told) == 1
    assert client.counters == {"mended_surrogates": 2}
    assert heard.notes == ["sent half a surrogate pair, which is passed on as U+FFFD"]


async def test_news() -> None:
    """Other notifications go to the listener as they came."""
    client, _, heard = opened()
    say(client, '{"jsonrpc":"2.0","method":"notifications/x","params":{ "a":1 }}', {"method": "y"})
    assert heard.news == [("notifications/x", b'{ "a":1 }'), ("y", b"")]


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("ping", {"result": {}}),
        ("roots/list", {"result": {"roots": [{"uri": "file:///w"}]}}),
        ("sampling/createMessage", -32601),
        ("elicitation/create", -32601),
        ("foo/bar", -32601),
        ("x" * 5000 + "\ud800", -32601),
    ],
)
@pytest.mark.parametrize("mid", ["s1", 1, 10**30, None])
async def test_questions_of_a_server(method: str, answer: Any, mid: Any) -> None:
    """C061: every question of a legacy server is answered, with its own id; what is not offered with -32601."""
    client, wire, _ = opened()
    waiter = call(client)
    say(client, {"id": mid, "method": method, "params": {}})
    sent = wire.sent[1]
    assert sent["id"] == mid
    assert len(wire.frames[1]) < 500
    if answer == -32601:
        assert sent["error"]["code"] == -32601
    else:
        assert {k: sent[k] for k in answer} == answer
    assert waiter.told == []


async def test_questions_of_a_modern_server() -> None:
    """C061: a modern server asks nothing; what it asks is logged a few times, counted always, and never answered."""
    client, wire, heard = opened("modern")
    for _ in range(10):
        say(client, {"id": 1, "method": "ping"})
    assert wire.frames == []
    assert len(heard.notes) == 3
    assert client.counters["server_request_modern"] == 10


# --- noise -----------------------------------------------------------------------------------------------------------


async def test_noise_is_passed_over() -> None:
    """C045: banners, blanks and logs are counted and logged a few times, escaped; the session goes on."""
    client, wire, heard = opened(ready=False)
    waiter = call(client)
    for line in (
        "\u256d\u2500 FastMCP \x1b[31m\u256e",
        "   ",
        "[INFO] {}",
        '{"level":30}',
        "42",
        "null",
        '"hi"',
        "x" * 9999,
    ):
        say(client, line)
    say(client, {"id": 1, "result": {}})
    assert waiter.told == [b"{}"]
    assert not wire.aborted
    assert client.counters["noise"] == 7
    assert all(note.isprintable() and len(note) < 300 for note in heard.notes)
    assert len(heard.notes) <= 6


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("line", ["x", "y" * 100_000])
async def test_too_much_noise(ready: bool, line: str) -> None:
    """C045: a server that writes only noise is given up within a bound, with a reason that says so."""
    client, wire, _ = opened(ready=ready)
    written = 0
    while not wire.aborted:
        say(client, line)
        written += 1
        assert written <= module.NOISE_LINES_AFTER + 1
        assert written * len(line) < module.NOISE_BYTES_AFTER * 2
    assert client.gone == "the server writes non-protocol data to stdout"
    assert client.counters["failed_not_protocol"] == 1
    if not ready:
        assert written <= module.NOISE_LINES_BEFORE + 1


async def test_noise_between_messages_is_counted_anew() -> None:
    """C045: the bound is for noise in a row."""
    client, wire, _ = opened(ready=False)
    for _ in range(5):
        for _ in range(900):
            say(client, "noise")
        say(client, {"method": "notifications/x"})
    assert not wire.aborted


async def test_content_length_framing() -> None:
    """C056: the framing of language servers is named at once, before the handshake; later it is noise."""
    client, wire, _ = opened(ready=False)
    say(client, "Content-Length: 120")
    assert wire.aborted
    assert client.gone == "the peer speaks Content-Length framing, not MCP stdio"
    client, wire, _ = opened(ready=True)
    say(client, "Content-Length: 120")
    assert not wire.aborted


BATCH = '[{"jsonrpc":"2.0","id":1,"result":{}},5,[[1]],{"jsonrpc":"2.0","method":"notifications/x"}]'


async def test_batches_where_they_were_agreed() -> None:
    """C057: in 2025-03-26 the elements are handled one by one, and a bad one loses no good one."""
    client, _, heard = opened(version="2025-03-26")
    waiter = call(client)
    say(client, BATCH, "[]", "[", "[" * 500 + "]" * 500)
    assert waiter.told == [b"{}"]
    assert heard.news == [("notifications/x", b"")]
    assert client.counters["noise"] == 3


@pytest.mark.parametrize("fields", [{}, {"version": "2025-03-26", "ready": False}, {"era": "modern"}])
async def test_batches_where_they_were_not_agreed(fields: dict[str, Any]) -> None:
    """C057: otherwise a batch is one bad line; whom it claims to answer need not wait, and the stream goes on."""
    client, wire, _ = opened(**fields)
    waiter, other = call(client), call(client)
    say(client, BATCH)
    assert waiter.told == [("unreadable", "a JSON array, not one message")]
    assert client.counters["batch"] == 1
    say(client, {"id": 2, "result": {}})
    assert other.told == [b"{}"]
    assert not wire.aborted


# --- channels on which each request travels by itself -----------------------------------------------------------------


class Moving(Call):
    """A waiter whose request may be sent again elsewhere."""

    def moved(self, client: Client) -> None:
        self.told.append(client)


def fails(client: Client, kind: str) -> Call:
    waiter = call(client)
    client.unanswered(client.next_id() - 1, kind, "x")
    return waiter


async def test_a_request_that_will_not_be_answered() -> None:
    """Its waiter is told once, and nobody of a request that is over."""
    client, _, _ = opened()
    assert fails(client, "lost").told == [("lost", "x")]
    client.unanswered(1, "lost", "x")
    client.unanswered(99, "lost", "x")


@pytest.mark.parametrize(
    ("sequence", "out"),
    [("RRR", True), ("RRTR", False), ("RTRTRT", False), ("RLRLR", True), ("RHRHR", False), ("LLLLLL", False)],
)
async def test_strikes(sequence: str, out: bool) -> None:
    """C086: three failures of the way in a row end the connection with the reason; an answer, isError too, resets; a
    wait that ended here counts neither way."""
    client, wire, _ = opened()
    for step in sequence:
        if step == "T":
            waiter = call(client)
            say(client, {"id": client.next_id() - 1, "result": {"isError": True}})
            assert len(waiter.told) == 1
        elif step == "L":
            call(client)
            assert client.withdraw(client.next_id() - 1, "no longer needed")
        else:
            fails(client, {"R": "lost", "H": "refused"}[step])
    assert wire.aborted == out
    assert ("failed" in client.gone) == out


async def test_probes_that_stay_unanswered() -> None:
    """C086: they and failed requests are strikes of one row, which an answer ends; the third ends the connection."""
    client, wire, _ = opened()
    client.missed("silent")
    fails(client, "lost")
    call(client)
    say(client, {"id": client.next_id() - 1, "result": {}})
    for _ in range(2):
        client.missed("silent")
    before = wire.aborted
    client.missed("silent for long")
    assert (before, wire.aborted) == (False, True)
    assert (client.gone, client.counters["missed_probes"]) == ("silent for long", 4)


async def test_signs_of_life() -> None:
    """An answer to whatever, a refusal, and progress of a call that waits; nothing that a server says by itself."""
    client, _, _ = opened()
    call(client)
    progress = {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
    said = []
    answer: dict[str, Any] = {"id": 1, "result": {}}
    for message in (progress, answer, answer, progress, {"method": "notifications/x"}):
        say(client, message)
        said.append(client.signs)
    assert said == [1, 2, 2, 2, 2]
    fails(client, "lost")
    fails(client, "rate_limited")
    assert client.signs == 3


async def test_no_strikes_while_there_is_no_way() -> None:
    """C085: what fails then says nothing of the server, and whoever waits is told that this machine is offline; a
    failed probe beside a call is no strike either."""
    client, wire, _ = opened()
    client.severed = True
    for _ in range(5):
        waiter = call(client)
        client.unanswered(client.next_id() - 1, "unreachable", "Network is unreachable")
        offline = "this machine is offline, or has no way to the server's host: Network is unreachable"
        assert waiter.told == [("unreachable", offline)]
    client.severed = False
    for _ in range(5):
        probe = Reply(float("inf"))
        probe.uncounted = True
        client.unanswered(client.start(probe, "ping"), "lost", "gone")
        assert isinstance(probe.error, TransportError) and probe.error.kind == "lost"
    assert not wire.aborted
    for _ in range(3):
        fails(client, "lost")
    assert wire.aborted


async def test_noise_that_comes_over_no_stdout() -> None:
    """C045: what has no stdout is not said to write to it."""
    client, wire, _ = opened(ready=False)
    client.stdout = False
    while not wire.aborted:
        say(client, "y" * 100_000)
    assert client.gone == "the server sends what is no message of the protocol"


async def test_no_strikes_before_the_handshake_is_over() -> None:
    """An attempt that fails says so by itself."""
    client, wire, _ = opened(ready=False)
    for _ in range(5):
        fails(client, "unreachable")
    assert not wire.aborted


async def test_requests_of_a_session_that_is_over() -> None:
    """C065: they are kept, can be withdrawn, and go on under their ids on another connection, which uses none of them
    again; nobody hears of the move but who waits."""
    old, _, _ = opened()
    kept, dropped = call(old, Moving()), call(old, Moving())
    for mid in (1, 2):
        old.unanswered(mid, "session", "x")
    old.lost("gone")
    assert kept.told == dropped.told == []
    assert old.withdraw(2, "not wanted")
    assert list(old.returned) == [1]

    new, wire, _ = opened()
    new.continue_after(1)
    new.carry_on(1, old.returned[1], b'{"the":"frame"}\n')
    assert wire.frames == [b'{"the":"frame"}\n']
    other = call(new)
    assert wire.sent[-1]["id"] == 2
    say(new, {"id": 1, "result": {}})
    assert kept.told == [new, b"{}"]
    assert other.told == []


async def test_a_request_of_the_hubs_own_when_its_session_is_over() -> None:
    """It is lost at once: what awaits it stands between the worker and the next session."""
    client, wire, _ = opened()

    async def lists() -> None:
        with pytest.raises(TransportError) as caught:
            await client.request("tools/list", timeout=60)
        assert caught.value.kind == "lost"

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lists)
            while not wire.frames:
                await anyio.lowlevel.checkpoint()
            client.unanswered(wire.sent[-1]["id"], "session", "gone")
    assert client.returned == {}


async def test_lost_while_requests_are_held() -> None:
    """What was not sent was not acted on, and says so."""
    client = Client(Heard())
    client.use(Held())
    held = call(client)
    client.lost("gone")
    assert held.told == [("session_over", "gone")]


async def test_a_request_that_is_released() -> None:
    """It may be sent elsewhere: here nobody waits for it any more, and the server is not told."""
    client, wire, _ = opened()
    waiter = call(client)
    assert client.release(1) is waiter and client.release(1) is None
    assert len(wire.frames) == 1 and not client.waiting()


@pytest.mark.parametrize(
    ("how", "declares", "sampling"),
    [
        ({}, b'{"elicitation":{},"roots":{}}', False),
        ({"sampling": True}, b'{"elicitation":{},"roots":{},"sampling":{}}', True),
        ({"declares": b"{}"}, b"{}", False),
        ({"declares": b'{"sampling":{"tools":{}}}'}, b'{"sampling":{"tools":{}}}', True),
    ],
    ids=range(4),
)
async def test_what_it_declares(how: dict[str, Any], declares: bytes, sampling: bool) -> None:
    """C061: the shared set, with sampling where the entry says so, or one agent's own."""
    client = Client(Heard(), **how)
    assert (client.declares, client.sampling) == (declares, sampling)


async def test_what_proves_a_session() -> None:
    """Once another session was opened, an answer to what was asked before says nothing; one to what was asked since
    does."""
    client, _, _ = opened()
    call(client)
    proven = [client.proven]
    client.doubt()
    say(client, {"id": 1, "result": {}}, {"method": "notifications/x"})
    proven.append(client.proven)
    call(client)
    say(client, {"id": 2, "error": {"code": -1, "message": "no"}})
    assert [*proven, client.proven] == [True, False, True]


# --- what waits at the channel ----------------------------------------------------------------------------------------


class Keeping(KeptChannel):
    """A channel at which requests wait until they are sent; a cancelled one does not."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: set[int] = set()

    def untouched(self, mid: int) -> bool:
        return mid in self.waits

    def send(self, *parts: Data) -> None:
        super().send(*parts)
        if self.sent[-1].get("method") == "notifications/cancelled":
            self.waits.discard(self.sent[-1]["params"]["requestId"])


def keeping() -> tuple[Client, Keeping]:
    client, _, _ = opened()
    wire = Keeping()
    client.use(wire)
    return client, wire


async def test_a_call_that_waits_at_the_channel_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """C089: it is told as one that was not acted on, and its server is not waited for; one that was sent is not, nor is
    a request of mcphub's own told anything else than before."""
    monkeypatch.setattr(module, "SWEEP", 0.01)
    client, wire = keeping()
    now = anyio.current_time()
    waits, sent, own = call(client, Call(now)), call(client, Call(now)), Reply(now)
    wire.waits = {1, client.start(own, "ping")}
    with anyio.fail_after(5):
        for one in (waits, sent):
            await one.done.wait()
        await own.event.wait()
    assert [one.told[0][0] for one in (waits, sent)] == ["overdue", "timeout"]
    assert isinstance(own.error, TransportError) and own.error.kind == "timeout"
    assert [one.mid for one in client.withdrew.since(0.0)] == [2, 3]


async def test_a_call_that_waits_at_the_channel_when_that_ends() -> None:
    """C089: it was certainly not acted on, whatever ended the connection; what was sent may have been."""
    client, wire = keeping()
    own = Reply(anyio.current_time() + 60)
    waits, sent = call(client), call(client)
    wire.waits = {1, client.start(own, "ping")}
    client.lost("away")
    assert [one.told[0][0] for one in (waits, sent)] == ["unsent", "lost"]
    assert "away" in waits.told[0][1]
    assert isinstance(own.error, TransportError) and own.error.kind == "lost"


async def test_a_call_whose_connection_is_not_open_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """C089: what is held until a connection is open has not been sent."""
    monkeypatch.setattr(module, "SWEEP", 0.01)
    client, _, _ = opened()
    client.use(Held())
    waits = call(client, Call(anyio.current_time()))
    with anyio.fail_after(5):
        await waits.done.wait()
    assert waits.told[0][0] == "overdue"
