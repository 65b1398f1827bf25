"""Owns the agents: each keeps so many calls in flight, answers questions, withdraws some calls, writes it all down.

It must not judge an answer, nor know how a server is hurt. No task per call on a byte stream: what one read brings is
answered, and replaced, by one write.
"""

from __future__ import annotations

import random
import time
from array import array
from collections import Counter
from typing import Any, Protocol

import anyio
import msgspec
from anyio.abc import ByteStream

from tests.e2e.calls.ledger import TOKEN, TOOLS, Answer, Book, Outcome, read_answer
from tests.e2e.calls.work import NAMES, Wanted, Work
from tests.fakes.agent import LEGACY, META, MODERN
from tests.fakes.http_agent import HttpAgent

#: Calls in flight of one agent on a byte stream, and of one over HTTP, a connection each.
WINDOW = 16
CONNECTIONS = 4
#: Seconds after which an agent over HTTP withdraws a call, at most.
PATIENCE = 0.02
#: Seconds for which a server that took nothing is seldom called.
AWAY = 0.05
CAPABILITIES: dict[str, Any] = {"elicitation": {}}


class Asks(Protocol):
    """An agent. `run` returns when there is no work left, and each of its calls has ended."""

    book: Book
    #: Answers that it gave to questions.
    answers: int

    async def run(self, work: Work) -> None: ...


def _elicited(token: str) -> str:
    return f'{{"action":"accept","content":{{"token":"{token}"}}}}'


class _Asked(msgspec.Struct):
    params: dict[str, Any] = {}


class _Round(msgspec.Struct):
    resultType: str = ""
    inputRequests: dict[str, _Asked] = {}
    requestState: msgspec.Raw = msgspec.Raw(b"null")


_round = msgspec.json.Decoder(_Round).decode
_params = msgspec.json.Decoder(dict[str, Any]).decode


class _Agent:
    """What both kinds have in common."""

    def __init__(self, book: Book, era: str, seed: str) -> None:
        self.book, self.era = book, era
        self.answers = 0
        self.chance = random.Random(f"{seed} {book.agent}")
        self.busy: Counter[str] = Counter()
        #: Until when each server is as good as away.
        self.away: dict[str, float] = {}
        info = {"name": book.agent, "version": "1"}
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": CAPABILITIES, META + "clientInfo": info}
        self.meta = ',"_meta":' + msgspec.json.encode(meta).decode() if era == "modern" else ""
        self.handshake = {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "clientInfo": info}

    def begin(self, work: Work) -> tuple[int, Wanted] | None:
        now = time.monotonic()
        away = {name for name, until in self.away.items() if now < until} if self.away else ()
        wanted = work.next(self.chance, self.busy, away)
        if wanted is None:
            return None
        number = self.book.begin(wanted.server, wanted.tool, wanted.how, time.monotonic())
        self.busy[NAMES[wanted.server]] += 1
        return number, wanted

    def answered(self, number: int, wanted: Wanted, answer: Answer) -> None:
        now = time.monotonic()
        self.book.answered(number, answer, now)
        if self.book.outcomes[number] == Outcome.NOT_TAKEN:
            self.away[NAMES[wanted.server]] = now + AWAY

    def request(self, mid: int, number: int, wanted: Wanted, more: str = "") -> str:
        """The call as JSON; `more` are the members of a retry, with a comma before each."""
        name = f"mcp__{NAMES[wanted.server]}__{TOOLS[wanted.tool]}"
        arguments = wanted.arguments(self.book.token(number))
        params = f'{{"name":"{name}","arguments":{arguments}{more}{self.meta}}}'
        return f'{{"jsonrpc":"2.0","id":{mid},"method":"tools/call","params":{params}}}'

    def round(self, number: int, answer: Answer) -> str:
        """What a retry of this call brings, "" = it is the answer; a question must be this call's."""
        if not self.meta or b'"input_required"' not in bytes(answer.result):
            return ""
        asks = _round(answer.result)
        self.answers += 1
        asked = asks.inputRequests.items()
        brought = ",".join(f'"{key}":{self.answer_to(one.params, number)}' for key, one in asked)
        state = bytes(asks.requestState).decode()
        return f',"inputResponses":{{{brought}}},"requestState":{state}'

    def answer_to(self, params: dict[str, Any], number: int) -> str:
        """What it says to a question that came with this call. Where a server does not say whose it is, it may be of a
        call that the same agent has just withdrawn."""
        meant = self.meant(params)
        if meant is None:
            self.book.wrong(number, f"it was given the question of another agent's call: {params}")
            return _elicited("")
        if meant != number and self.book.outcomes[meant] != Outcome.CANCELLED:
            self.book.wrong(number, f"it was given the question of another call: {params}")
        return _elicited(self.book.token(meant))

    def meant(self, params: dict[str, Any]) -> int | None:
        """The number of the call that a question is about; None = it is none of this agent's."""
        found = TOKEN.search(str(params.get("message")))
        agent, _, number = found[1].rpartition("-") if found else ("", "", "")
        return int(number) if agent == self.book.agent else None


class Streamed(_Agent):
    """One on a byte stream."""

    def __init__(self, stream: ByteStream, book: Book, era: str, seed: str, window: int = WINDOW) -> None:
        super().__init__(book, era, seed)
        self._window = window
        self._stream = stream
        self._rest = b""
        self._last = 0
        self._out: list[str] = []
        #: Requests in flight: the number of the call and what it asks; those that are withdrawn until the ping behind
        #: the withdrawal is answered, and those pings.
        self._open: dict[int, tuple[int, Wanted]] = {}
        self._withdrawn: dict[int, tuple[int, Wanted]] = {}
        self._pings: dict[int, int] = {}
        #: Requests to be withdrawn, after so many reads.
        self._doomed: dict[int, int] = {}
        #: The number of the call that each id was of, -1 = none.
        self._of = array("l", [-1])

    async def introduce(self) -> None:
        """The handshake, if there is one."""
        if self.era == "legacy":
            self._out.append(self._message("initialize", self.handshake))
            self._out.append('{"jsonrpc":"2.0","method":"notifications/initialized"}')
            await self._flush()
            while not await self._read():
                pass

    def _message(self, method: str, params: Any) -> str:
        mid = self._id(-1)
        return msgspec.json.encode({"jsonrpc": "2.0", "id": mid, "method": method, "params": params}).decode()

    def _id(self, number: int) -> int:
        self._last += 1
        self._of.append(number)
        return self._last

    async def run(self, work: Work) -> None:
        self._fill(work)
        await self._flush()
        while self._open or self._withdrawn:
            for answer in await self._read():
                self._took(answer)
            self._withdraw()
            self._fill(work)
            await self._flush()

    async def _flush(self) -> None:
        if self._out:
            data = "\n".join([*self._out, ""]).encode()
            self._out.clear()
            await self._stream.send(data)

    async def _read(self) -> list[Answer]:
        *lines, self._rest = (self._rest + await self._stream.receive(1 << 18)).split(b"\n")
        return [read_answer(line) for line in lines]

    def _fill(self, work: Work) -> None:
        if len(self._open) > self._window // 2 > WINDOW:
            return  # so that many go together
        while len(self._open) < self._window and (begun := self.begin(work)) is not None:
            number, wanted = begun
            self._send(number, wanted)

    def _send(self, number: int, wanted: Wanted, more: str = "") -> None:
        mid = self._id(number)
        self._open[mid] = number, wanted
        self._out.append(self.request(mid, number, wanted, more))
        if wanted.withdraw and not more:
            self._doomed[mid] = self.chance.randrange(3)

    def _withdraw(self) -> None:
        """Take back what is due; a ping goes behind it, whose answer nothing of it may follow."""
        for mid, reads in list(self._doomed.items()):
            if mid not in self._open:
                del self._doomed[mid]
            elif reads:
                self._doomed[mid] = reads - 1
            else:
                del self._doomed[mid]
                number, _ = self._withdrawn[mid] = self._open.pop(mid)
                params = f'{{"requestId":{mid},"reason":"not wanted"}}'
                self._out.append(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}')
                ping = self._id(number)
                self._pings[ping] = mid
                self._out.append(f'{{"jsonrpc":"2.0","id":{ping},"method":"ping"}}')
                self.book.note(number, "is withdrawn", time.monotonic())

    def _took(self, answer: Answer) -> None:
        mid, now = answer.id, time.monotonic()
        if answer.method:
            if mid is not None:
                self._questioned(answer)
            return
        if not isinstance(mid, int) or mid < 1:
            self.book.wrong(-1, f"an answer to nothing: {bytes(answer.result or answer.error)!r}")
        elif (found := self._open.pop(mid, None) or self._withdrawn.pop(mid, None)) is not None:
            number, wanted = found
            if more := self.round(number, answer):
                self.book.note(number, "is asked", now)
                self._send(number, wanted, more)
            else:
                self.answered(number, wanted, answer)
                self.busy[NAMES[wanted.server]] -= 1
        elif mid in self._pings:
            if (late := self._withdrawn.pop(self._pings.pop(mid), None)) is not None:
                self.book.cancelled(late[0], now)
                self.busy[NAMES[late[1].server]] -= 1
        else:
            number = self._of[mid] if mid < len(self._of) else -1
            said = bytes(answer.result or answer.error)
            self.book.wrong(number, f"a second answer for the id {mid}: {said!r}")

    def _questioned(self, answer: Answer) -> None:
        """A server asks: it must be about a call that is in flight."""
        params = _params(answer.params) if answer.params else {}
        number = self.meant(params)
        reply = '"error":{"code":-32601,"message":"Method not found"}'
        if answer.method == "elicitation/create":
            here = any(number == one for one, _ in (*self._open.values(), *self._withdrawn.values()))
            if number is None or not here:
                words = f"a question that is not for this agent now: {params}"
                self.book.wrong(-1 if number is None else number, words)
            self.answers += 1
            reply = f'"result":{_elicited(self.book.token(number if number is not None else -1))}'
        mid = msgspec.json.encode(answer.id).decode()
        self._out.append(f'{{"jsonrpc":"2.0","id":{mid},{reply}}}')


class OverHttp(_Agent):
    """One at the HTTP endpoint, with a few connections that are kept."""

    def __init__(self, url: str, book: Book, era: str, seed: str) -> None:
        super().__init__(book, era, seed)
        self.agent = HttpAgent(url)
        self._last = 0

    async def introduce(self) -> None:
        if self.era == "legacy":
            agent, body = self.agent, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": self.handshake}
            reply = await agent.ask("POST", {}, msgspec.json.encode(body))
            agent.session, agent.version = reply.headers["mcp-session-id"], LEGACY
            assert (await agent.notify("notifications/initialized")).status == 202

    async def leave(self) -> None:
        if self.era == "legacy":
            await self.agent.ask("DELETE", self.agent.legacy_headers)

    async def run(self, work: Work) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(CONNECTIONS):
                tasks.start_soon(self._line, work)

    async def _line(self, work: Work) -> None:
        line = _Line(self.agent)
        try:
            while (begun := self.begin(work)) is not None:
                number, wanted = begun
                await self._call(line, number, wanted)
                self.busy[NAMES[wanted.server]] -= 1
        finally:
            await line.close()

    async def _call(self, line: _Line, number: int, wanted: Wanted) -> None:
        more = ""
        while True:
            self._last += 1
            mid = self._last
            body = self.request(mid, number, wanted, more)
            if wanted.withdraw and not more:
                answer = await self._withdrawn(line, mid, number, wanted, body)
            else:
                answer = await self._answer(line, mid, number, wanted, body)
            now = time.monotonic()
            if answer is None:
                return
            if not (more := self.round(number, answer)):
                self.answered(number, wanted, answer)
                return
            self.book.note(number, "is asked", now)

    async def _withdrawn(self, line: _Line, mid: int, number: int, wanted: Wanted, body: str) -> Answer | None:
        """The modern era withdraws by hanging up, the older one by a notification, after which the answer just ends."""
        patience = self.chance.random() * PATIENCE
        if self.era == "modern":
            answer = None
            with anyio.move_on_after(patience):
                answer = await self._answer(line, mid, number, wanted, body)
            if answer is None and not self.book.ended[number]:
                await line.close()
                self.book.note(number, "is withdrawn", time.monotonic())
                self.book.cancelled(number, time.monotonic())
            return answer
        told = False

        async def tell() -> None:
            nonlocal told
            await anyio.sleep(patience)
            told = True
            self.book.note(number, "is withdrawn", time.monotonic())
            await self.agent.notify("notifications/cancelled", {"requestId": mid, "reason": "not wanted"})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            answer = await self._answer(line, mid, number, wanted, body, lambda: told)
            if not told:
                tasks.cancel_scope.cancel()
        if answer is None and told:
            self.book.cancelled(number, time.monotonic())
        return answer

    async def _answer(
        self, line: _Line, mid: int, number: int, wanted: Wanted, body: str, may_end: Any = lambda: False
    ) -> Answer | None:
        """The response. None = the answer ended without one; that is wrong, unless it may."""
        headers = dict(self.agent.legacy_headers)
        if self.era == "modern":
            name = f"mcp__{NAMES[wanted.server]}__{TOOLS[wanted.tool]}"
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}
        found: Answer | None = None
        try:
            async for said in line.exchange(headers, body.encode()):
                answer = read_answer(said)
                if answer.method and answer.id is not None:
                    await self._questioned(number, answer)
                elif answer.method:
                    continue
                elif found is not None or answer.id != mid:
                    self.book.wrong(number, f"another answer on its stream: {said!r}")
                else:
                    found = answer
        except (anyio.EndOfStream, anyio.BrokenResourceError) as e:
            await line.close()
            self.book.wrong(number, f"the connection to mcphub was lost: {type(e).__name__}")
            return None
        if found is None and not may_end():
            self.book.wrong(number, "its answer ended without a response")
        return found

    async def _questioned(self, number: int, answer: Answer) -> None:
        self.answers += 1
        mid = msgspec.json.encode(answer.id).decode()
        body = f'{{"jsonrpc":"2.0","id":{mid},"result":{self.answer_to(_params(answer.params), number)}}}'
        reply = await self.agent.ask("POST", self.agent.legacy_headers, body.encode())
        if reply.status != 202:
            self.book.wrong(number, f"an answer to its question was refused: {reply}")


class _Line:
    """One connection to the endpoint, opened when it is needed."""

    def __init__(self, agent: HttpAgent) -> None:
        self._agent = agent
        self._stream: ByteStream | None = None
        self._data = b""

    async def close(self) -> None:
        stream, self._stream, self._data = self._stream, None, b""
        if stream is not None:
            await anyio.aclose_forcefully(stream)

    async def exchange(self, headers: dict[str, str | None], body: bytes) -> Any:
        """One POST: the messages of its answer. Raises EndOfStream, BrokenResourceError."""
        if self._stream is None:
            host, _, port = self._agent.host.partition(":")
            self._stream = await anyio.connect_tcp(host, int(port))
        fields = {
            "Host": self._agent.host,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = [f"POST {self._agent.path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items() if v is not None)]
        await self._stream.send("\r\n".join([*head, "", ""]).encode() + body)
        answer = (await self._until(b"\r\n\r\n")).decode("latin-1").lower()
        if "text/event-stream" not in answer:
            length = int(answer.partition("content-length:")[2].split()[0])
            if length:
                yield await self._exactly(length)
            return
        events = b""
        while size := int(await self._until(b"\r\n"), 16):
            events += (await self._exactly(size + 2))[:-2]
            *blocks, events = events.split(b"\n\n")
            for block in blocks:
                # Of an event without data, which only has an id to go on from, there is nothing to take.
                for field in block.split(b"\n"):
                    if field.startswith(b"data: ") and len(field) > len(b"data: "):
                        yield field[6:]
        await self._exactly(2)

    async def _until(self, end: bytes) -> bytes:
        while end not in self._data:
            await self._more()
        found, _, self._data = self._data.partition(end)
        return found

    async def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            await self._more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    async def _more(self) -> None:
        assert self._stream is not None
        self._data += await self._stream.receive(1 << 16)
