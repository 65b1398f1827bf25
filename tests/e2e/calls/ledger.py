"""Owns what is known of every call: what its agent sent and got, what the servers did, and whether both agree.

It must not send anything, nor know how a server is hurt. A million calls fit: a few bytes each, and words only
for those that did not end by a result.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec

#: The tools by what may happen to a call: how often it may be executed.
WRITES = ("write", "record", "ask")
IDEMPOTENT = ("put",)
READS = ("read",)
TOOLS = (*WRITES, *IDEMPOTENT, *READS)
#: Most attempts of a call that may be sent again.
ATTEMPTS = 3
#: Kinds of errors that say: it may have been executed, or not. Any other says that it was not.
MAYBE = frozenset(["outcome_unknown", "request_state_lost"])
#: The same for tools that only read.
MAYBE_READ = frozenset(["outcome_unknown", "lost", "timeout", "unreadable"])
#: Faults that are told in full.
MOST_TOLD = 20
ERROR = "dev.mcphub/error"
TOKEN = re.compile(r"\b([a-z0-9]+-[0-9]+)\b")

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


class Outcome(IntEnum):
    OPEN = 0
    RESULT = 1
    #: It may have been executed.
    UNKNOWN = 2
    #: It was not executed, as its agent was told.
    NOT_TAKEN = 3
    CANCELLED = 4


class Answer(msgspec.Struct):
    """As much of a message as is judged; `method` "" = it is a response."""

    id: int | str | None = None
    method: str = ""
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class Verdict(msgspec.Struct, frozen=True):
    """How a call ended by this answer. `wrong` "" = as it must; `operation` names it in the journal, "" = nothing."""

    outcome: Outcome
    kind: str = ""
    text: str = ""
    wrong: str = ""
    operation: str = ""


class _Block(msgspec.Struct):
    text: str = ""


class _Result(msgspec.Struct):
    content: list[_Block] = []
    isError: bool = False
    structuredContent: dict[str, Any] | None = None
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")


class _Error(msgspec.Struct):
    code: int
    message: str
    data: Any = None


_result = msgspec.json.Decoder(_Result).decode
_error = msgspec.json.Decoder(_Error).decode
_answer = msgspec.json.Decoder(Answer).decode
DONE = Verdict(Outcome.RESULT)


def read_answer(line: bytes) -> Answer:
    """One message. Raises msgspec.DecodeError."""
    return _answer(line)


def judge(answer: Answer, token: str, server: str, tool: str) -> Verdict:
    """A result must bring the token of its call, and structured output again; all else must have a name."""
    if answer.error:
        try:
            error = _error(answer.error)
        except msgspec.DecodeError as e:
            return Verdict(Outcome.UNKNOWN, "odd", wrong=f"an error that is none ({e}): {bytes(answer.error)!r}")
        named = error.data.get(ERROR, {}) if isinstance(error.data, dict) else {}
        kind, where = str(named.get("kind") or ""), named.get("server", "")
        maybe = kind in (MAYBE_READ if tool in READS else MAYBE)
        wrong = ""
        if not kind:
            wrong = f"an error without a name: {error.code} {error.message!r}"
        elif not error.message:
            wrong = "an error without words"
        elif where not in ("", server):
            wrong = f"an error of the server {where}"
        operation = str(named.get("operationId", ""))
        return Verdict(Outcome.UNKNOWN if maybe else Outcome.NOT_TAKEN, kind, error.message, wrong, operation)
    try:
        result = _result(answer.result)
    except msgspec.DecodeError as e:
        return Verdict(Outcome.UNKNOWN, "odd", wrong=f"no result of a tool ({e}): {bytes(answer.result)[:300]!r}")
    said = result.content[0].text if result.content else ""
    if result.isError:
        named = result.meta.get(ERROR, {})
        kind = str(named.get("kind") or "tool error")
        wrong = "" if server in said else "a tool error that does not say whose"
        return Verdict(Outcome.NOT_TAKEN, kind, said, wrong, str(named.get("operationId", "")))
    if said == f"declined {token}":
        return Verdict(Outcome.NOT_TAKEN, "declined", said)
    if said != token:
        return Verdict(Outcome.RESULT, "", said, f"the answer of another call: {said[:200]!r}")
    if tool == "record" and result.structuredContent != {"token": token, "count": 1}:
        return Verdict(Outcome.RESULT, "", said, f"other structured content: {result.structuredContent}")
    return DONE


class Execution(msgspec.Struct, frozen=True, order=True):
    """One line of a server's. `at` is its moment, monotonic seconds."""

    at: float
    token: str
    tool: str
    pid: int
    server: str


def executions(server: str, lines: Iterable[bytes]) -> Iterable[Execution]:
    """What a server has written down; the last line of one that was killed cannot be half, being one write."""
    for line in lines:
        token, tool, pid, at = line.split()
        yield Execution(float(at), token.decode(), tool.decode(), int(pid), server)


class Book:
    """The calls of one agent, numbered from 0. `fault` is told of whatever is wrong, with the call's number."""

    def __init__(self, agent: str, servers: Sequence[str], fault: Callable[[Book, int, str], None]) -> None:
        self.agent = agent
        self.servers = servers
        self.outcomes = bytearray()
        self.kinds: Counter[str] = Counter()
        #: Of those that did not end by a result: how, in words.
        self.words: dict[int, Verdict] = {}
        #: Whatever else happened to a call: (moment, words).
        self.notes: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)
        self.sent = array("d")
        self.ended = array("d")
        self._where = bytearray()
        self._tools = bytearray()
        self._hows: dict[int, str] = {}
        self._executed = bytearray()
        self._fault = fault

    def __len__(self) -> int:
        return len(self.outcomes)

    def begin(self, server: int, tool: int, how: str, now: float) -> int:
        """A call is sent; returns its number."""
        number = len(self.outcomes)
        self.outcomes.append(Outcome.OPEN)
        self._where.append(server)
        self._tools.append(tool)
        self._executed.append(0)
        self.sent.append(now)
        self.ended.append(0.0)
        if how:
            self._hows[number] = how
        return number

    def token(self, number: int) -> str:
        return f"{self.agent}-{number}"

    def server(self, number: int) -> str:
        return self.servers[self._where[number]]

    def tool(self, number: int) -> str:
        return TOOLS[self._tools[number]]

    def note(self, number: int, words: str, now: float) -> None:
        self.notes[number].append((now, words))

    def answered(self, number: int, answer: Answer, now: float) -> None:
        """Its agent got this for it."""
        if self.outcomes[number] != Outcome.OPEN:
            self.wrong(number, f"a second answer: {bytes(answer.result or answer.error)[:300]!r}")
            return
        verdict = judge(answer, self.token(number), self.server(number), self.tool(number))
        self.outcomes[number] = verdict.outcome
        self.ended[number] = now
        if verdict is DONE:
            return
        if verdict.outcome != Outcome.RESULT:
            self.words[number] = verdict
            self.kinds[f"{verdict.kind} ({'reads' if self.tool(number) in READS else 'writes'})"] += 1
        if verdict.wrong:
            self.wrong(number, verdict.wrong)

    def cancelled(self, number: int, now: float) -> None:
        """Its agent has withdrawn it, and nothing came."""
        if self.outcomes[number] != Outcome.OPEN:
            self.wrong(number, "it had ended, and was withdrawn")
            return
        self.outcomes[number] = Outcome.CANCELLED
        self.ended[number] = now

    def wrong(self, number: int, words: str) -> None:
        self._fault(self, number, words)

    def open(self) -> list[int]:
        """The numbers of those that have not ended."""
        found, at = [], -1
        while (at := self.outcomes.find(Outcome.OPEN, at + 1)) >= 0:
            found.append(at)
        return found

    def given_up(self) -> Counter[str]:
        """Calls that may be answered when nobody waits any more, by server: the attempts before the last too."""
        ends = (Outcome.CANCELLED, Outcome.UNKNOWN)
        found = enumerate(zip(self.outcomes, self._executed, strict=True))
        return Counter(self.server(at) for at, (outcome, times) in found if outcome in ends or times > 1)

    # --- the other side

    def executed(self, one: Execution, number: int) -> None:
        """A server did it."""
        if number >= len(self.outcomes):
            self._fault(self, -1, f"a call that nobody made was executed: {one}")
            return
        self._executed[number] = min(self._executed[number] + 1, 255)
        if one.server != self.server(number) or one.tool != self.tool(number):
            self.wrong(number, f"another server or tool executed it: {one}")

    def settle(self) -> Counter[str]:
        """Compare both sides; returns how often each outcome met each number of executions."""
        found: Counter[str] = Counter()
        for number, (code, times) in enumerate(zip(self.outcomes, self._executed, strict=True)):
            tool = TOOLS[self._tools[number]]
            what = tool if tool in (*READS, *IDEMPOTENT) else "write"
            found[f"{Outcome(code).name} {what} {times}"] += 1
            if words := disagreement(Outcome(code), tool, times):
                self.wrong(number, words)
        return found

    def history(self, number: int, done: Iterable[Execution], harms: Iterable[tuple[float, str, str]]) -> str:
        """Everything that is known of one call, in its order; `harms` are (moment, server, what was done to it)."""
        token, server, sent = self.token(number), self.server(number), self.sent[number]
        ended = self.ended[number] or sent
        verdict = self.words.get(number)
        lines = [(sent, f"{self.agent} sends {self.tool(number)} to {server}, how: {self._hows.get(number, 'plain')}")]
        lines += [(at, words) for at, words in self.notes.get(number, ())]
        lines += [(one.at, f"{one.server} executes {one.tool} in {one.pid}") for one in done if one.token == token]
        if self.ended[number]:
            said = f" {verdict.kind}: {verdict.text}" if verdict else ""
            lines.append((ended, f"{self.agent} has {Outcome(self.outcomes[number]).name}{said}"))
        near = [(at, f"{name}: {what}") for at, name, what in harms if name == server and sent - 2 < at < ended + 2]
        return "\n".join(f"    {at - sent:+9.4f} s {words}" for at, words in sorted(lines + near))


def disagreement(outcome: Outcome, tool: str, times: int) -> str:
    """What is wrong with so many executions of a call that ended so, "" = nothing."""
    most = 1 if tool in WRITES else ATTEMPTS
    if outcome == Outcome.OPEN:
        return "it has not ended"
    if times > most:
        return f"it was executed {times} times, {most} at most"
    if outcome == Outcome.RESULT and not times:
        return "it has a result, and was never executed"
    if outcome == Outcome.NOT_TAKEN and times and tool not in READS:
        return "its agent was told that it was not done, and it was"
    return ""


class Ledger:
    """The books of all agents, and what is wrong in them."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = servers
        self.books: dict[str, Book] = {}
        self.faults: list[tuple[Book, int, str]] = []
        self.count = 0
        #: (moment, server, what was done to it)
        self.harms: list[tuple[float, str, str]] = []

    def book(self, agent: str) -> Book:
        found = self.books[agent] = Book(agent, self.servers, self._fault)
        return found

    def _fault(self, book: Book, number: int, words: str) -> None:
        self.count += 1
        if len(self.faults) < MOST_TOLD:
            self.faults.append((book, number, words))

    @property
    def calls(self) -> int:
        return sum(map(len, self.books.values()))

    def outcomes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for book in self.books.values():
            found.update({outcome.name: book.outcomes.count(outcome) for outcome in Outcome})
        return +found

    def kinds(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for book in self.books.values():
            found.update(book.kinds)
        return found

    def examples(self) -> Counter[str]:
        """The words of errors, without numbers."""
        found: Counter[str] = Counter()
        for book in self.books.values():
            found.update(f"{one.kind}: {_NUMBER.sub('N', one.text)}" for one in book.words.values())
        return found

    def settle(self, done: Mapping[str, Callable[[], Iterable[bytes]]]) -> tuple[int, Counter[str]]:
        """Compare with the servers' files, by name; (executions, outcomes by their number)."""
        count, found = 0, Counter[str]()
        for server, lines in done.items():
            for one in executions(server, lines()):
                count += 1
                agent, _, number = one.token.rpartition("-")
                if agent in self.books:  # else it is no call of the run's
                    self.books[agent].executed(one, int(number))
        for book in self.books.values():
            found.update(book.settle())
        return count, found

    def told(self, done: Mapping[str, Callable[[], Iterable[bytes]]]) -> list[str]:
        """Every fault with the whole history of its call."""
        tokens = {book.token(number) for book, number, _ in self.faults}
        of = [one for server, lines in done.items() for one in executions(server, lines()) if one.token in tokens]
        texts = []
        for book, number, words in self.faults:
            if number < 0:
                texts.append(f"{book.agent}: {words}")
            else:
                texts.append(f"{book.token(number)}: {words}\n{book.history(number, of, self.harms)}")
        if self.count > len(self.faults):
            texts.append(f"and {self.count - len(self.faults)} faults more")
        return texts
