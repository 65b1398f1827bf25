"""How frames become an HTTP answer: a document or a stream, in order, each once."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from starlette.types import Message

from mcphub.protocol import jsonrpc
from mcphub.sessions import http_answer
from mcphub.sessions.http_answer import Answer, Stream, events, frames, lasts
from mcphub.sessions.http_replay import is_notification

pytestmark = pytest.mark.anyio

RESULT = jsonrpc.result_frame(b"1", b'{"a":1}')
NOTE = jsonrpc.notification_frame("notifications/progress", b'{"progress":1}')
CHANGED = jsonrpc.notification_frame("notifications/tools/list_changed")
UPDATED = jsonrpc.notification_frame("notifications/resources/updated", b'{"uri":"a"}')
LOG = jsonrpc.notification_frame("notifications/message", b'{"level":"info","data":1}')


class Sent:
    """What an ASGI server was given; it may refuse to take more."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.came = anyio.Event()

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        self.came.set()
        self.came = anyio.Event()
        await anyio.lowlevel.checkpoint()

    @property
    def status(self) -> int:
        found: int = self.messages[0]["status"]
        return found

    @property
    def kind(self) -> bytes:
        found: bytes = dict(self.messages[0]["headers"])[b"content-type"]
        return found

    @property
    def body(self) -> bytes:
        assert self.messages[-1]["more_body"] is False
        return b"".join(m["body"] for m in self.messages[1:])

    @property
    def data(self) -> list[Any]:
        """The messages of an event stream."""
        blocks = self.body.split(b"\n\n")[:-1]
        return [json.loads(b.removeprefix(b"event: message\ndata: ")) for b in blocks if not b.startswith(b":")]


def ok(code: int) -> int:
    return 400 if code == -32600 else 200


async def written(answer: Answer) -> Sent:
    sent = Sent()
    with anyio.fail_after(5):
        await answer.write(sent, ok, [(b"x", b"y")])
    assert (b"x", b"y") in sent.messages[0]["headers"]
    return sent


async def test_a_response_alone_is_a_document() -> None:
    """The usual case: no stream, a length, the frame as it came."""
    answer = Answer([b"1"])
    answer.send(RESULT[:20], memoryview(RESULT)[20:])
    sent = await written(answer)
    assert (sent.status, sent.kind, sent.body) == (200, b"application/json", RESULT)
    assert (b"content-length", b"%d" % len(RESULT)) in sent.messages[0]["headers"]


async def test_a_late_response_alone_is_a_document() -> None:
    """Waiting changes nothing about the form."""
    answer = Answer([b"1"])
    sent = Sent()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer.write, sent, ok)
        await anyio.lowlevel.checkpoint()
        answer.send(RESULT)
    assert sent.body == RESULT


@pytest.mark.parametrize(("code", "status"), [(-32600, 400), (-32602, 200)])
async def test_the_status_is_by_the_code(code: int, status: int) -> None:
    """Only of a JSON-RPC error; a result that looks like one is a result."""
    answer = Answer([b"1"])
    answer.send(jsonrpc.error_frame(b"1", code, "x"))
    assert (await written(answer)).status == status
    answer = Answer([b"1"])
    answer.send(jsonrpc.result_frame(b"1", b'{"code":-32600}'))
    assert (await written(answer)).status == 200


async def test_a_notification_first_makes_a_stream() -> None:
    """Its events come in order, the response is the last one, and what comes after it is not sent."""
    answer = Answer([b"1"])
    answer.send(NOTE + NOTE)
    answer.send(RESULT + NOTE)
    answer.send(NOTE)
    sent = await written(answer)
    assert (sent.status, sent.kind) == (200, b"text/event-stream")
    assert (b"x-accel-buffering", b"no") in sent.messages[0]["headers"]
    assert sent.body == events([NOTE, NOTE, RESULT])


async def test_a_request_first_makes_a_stream() -> None:
    """What a server asks the agent comes before the answer to the call that it belongs to."""
    answer = Answer([b'"a"'])
    asked = jsonrpc.request_frame(5, "elicitation/create")
    answer.send(asked)
    answer.send(jsonrpc.result_frame(b'"a"', b"{}"))
    assert (await written(answer)).body == events([asked, jsonrpc.result_frame(b'"a"', b"{}")])


async def test_silence_becomes_a_stream_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 90: what takes long says that it is still there, as often as needed, and then answers."""
    monkeypatch.setattr(http_answer, "KEEP_ALIVE", 0.01)
    answer = Answer([b"1"])
    sent = Sent()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer.write, sent, ok)
            while len(sent.messages) < 4:
                await sent.came.wait()
            answer.send(RESULT)
    comments = [m["body"] for m in sent.messages[1:-1]]
    assert set(comments) == {b": still here\n\n"}
    assert sent.data == [json.loads(RESULT)]


async def test_a_batch_is_one_document() -> None:
    """Answers in any order make an array; one that is refused whole is a single error."""
    answer = Answer([b"1", b'"2"'], batch=True)
    answer.send(jsonrpc.result_frame(b'"2"', b"{}"))
    answer.send(RESULT)
    assert [m["id"] for m in json.loads((await written(answer)).body)] == ["2", 1]
    answer = Answer([b"null"])
    answer.send(jsonrpc.error_frame(b"null", -32600, "no"))
    assert (await written(answer)).status == 400


async def test_a_batch_waits_for_all_of_its_answers() -> None:
    """While some are missing, others have their turn."""
    answer = Answer([b"1", b"2"], batch=True)
    sent = Sent()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer.write, sent, ok)
            await anyio.lowlevel.checkpoint()
            answer.send(RESULT)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            assert sent.messages == []
            answer.send(jsonrpc.result_frame(b"2", b"{}"))
    assert len(json.loads(sent.body)) == 2


async def test_a_batch_with_news_is_a_stream() -> None:
    """It ends with its last response."""
    answer = Answer([b"1", b"2"], batch=True)
    for frame in (NOTE, RESULT, NOTE, jsonrpc.result_frame(b"2", b"{}"), NOTE):
        answer.send(frame)
    sent = await written(answer)
    assert [m.get("id") for m in sent.data] == [None, 1, None, 2]


async def test_an_error_without_an_id_ends_it() -> None:
    """What could not be read is answered without an id."""
    answer = Answer([b"1"])
    answer.send(jsonrpc.error_frame(b"null", -32700, "x"))
    assert json.loads((await written(answer)).body)["error"]["code"] == -32700


async def test_a_cancelled_request_ends_without_a_message() -> None:
    """Row 70: nothing is sent for an id that was cancelled, and its connection is not kept for it."""
    answer = Answer([b"1"])
    answer.forget(b"2")
    assert answer.waiting == [b"1"]
    answer.forget(b"1")
    answer.send(RESULT)
    sent = await written(answer)
    assert (sent.kind, sent.body) == (b"text/event-stream", b"")


async def test_an_end_answers_what_waits() -> None:
    """Nobody who waits is left without a word."""
    answer = Answer([b"1", b"2"], batch=True)
    answer.send(RESULT)
    answer.end("stopping", b'{"k":1}')
    first, second = json.loads((await written(answer)).body)
    assert first["id"] == 1
    assert second == {"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "stopping", "data": {"k": 1}}}


async def test_nothing_is_kept_for_who_is_gone() -> None:
    """A call that runs on after its client left costs no memory for what it says."""
    answer = Answer([b"1"])
    answer.gone()
    answer.send(NOTE)
    answer.send(RESULT)
    assert answer.waiting == [b"1"]


async def test_a_client_that_does_not_read_loses_news_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of notifications is bounded; requests and responses are not dropped."""
    monkeypatch.setattr(http_answer, "BACKLOG", 100)
    answer = Answer([b"1"])
    for _ in range(100):
        answer.send(NOTE)
    asked = jsonrpc.request_frame(5, "elicitation/create")
    answer.send(asked)
    answer.send(RESULT)
    found = (await written(answer)).data
    assert len(found) < 5
    assert [m.get("id") for m in found[-2:]] == [5, 1]


def test_frames_and_events() -> None:
    """What was sent at once is taken apart; an event is one line, whatever white space its JSON has."""
    assert list(frames((RESULT,))) == [RESULT]
    assert list(frames((RESULT + NOTE,))) == [RESULT, NOTE]
    assert list(frames((bytearray(RESULT[:5]), memoryview(RESULT)[5:]))) == [RESULT]
    spaced = b'{"jsonrpc":"2.0","id":1,"result":{\r"a":"\\r"}}\n'
    assert events([spaced]) == b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{ "a":"\\r"}}\n\n'
    assert [is_notification(f) for f in (NOTE, RESULT, jsonrpc.request_frame(1, "ping"))] == [True, False, False]
    assert [lasts(f) for f in (CHANGED, UPDATED, LOG, NOTE, RESULT)] == [True, True, False, False, False]


async def test_ids_of_every_kind() -> None:
    """A response is told from a request whatever its id looks like."""
    for mid in (b"-5", b'""', b'"a\\"b,\\\\"', '"\u6f22"'.encode(), b'"id\\",\\"method"'):
        answer = Answer([mid])
        answer.send(jsonrpc.result_frame(mid, b"{}"))
        assert (await written(answer)).kind == b"application/json"


# -- the stream of a session


async def test_changes_wait_for_the_stream_once_each() -> None:
    """Nobody reads yet: a change is kept once, however often it came; what is only for now is gone."""
    stream = Stream()
    assert [stream.put(f) for f in (CHANGED, UPDATED, CHANGED, LOG)] == [True, True, True, False]
    sent = Sent()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.write, sent)
            while len(sent.messages) < 2:
                await sent.came.wait()
            assert stream.put(LOG)
            assert stream.read
            stream.end()
    assert not stream.read
    assert sent.messages[0]["status"] == 200
    assert sent.body == events([CHANGED, UPDATED, LOG])


async def test_a_quiet_stream_begins_at_once_and_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head does not wait for news; one that loses its reader takes the next."""
    monkeypatch.setattr(http_answer, "KEEP_ALIVE", 0.01)
    stream = Stream()
    for _ in range(2):
        sent = Sent()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.write, sent)
                while len(sent.messages) < 3:
                    await sent.came.wait()
                tasks.cancel_scope.cancel()
        assert not stream.read
        assert {m["body"] for m in sent.messages[1:]} == {b": still here\n\n"}


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that never opens its stream cannot make it grow."""
    monkeypatch.setattr(http_answer, "MAX_KEPT", 2)
    stream = Stream()
    found = [stream.put(UPDATED.replace(b'"a"', b'"%d"' % n)) for n in range(4)]
    assert found == [True, True, False, False]
