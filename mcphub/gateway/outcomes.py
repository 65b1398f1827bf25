"""Owns what the outcome journal is told of a call: that it is about to be sent, and what has come of it.

It must not know how a record is kept (store/call_journal.py), nor decide whether a call is sent again. No argument's
value goes there, only a keyed digest.

A call that is known to read only is none of its business. All others are recorded before they are sent; all attempts
and, for a legacy agent, all rounds of one call are one record. That a server asks for input is no outcome that anybody
need look after: it has said that it waits.
"""

from __future__ import annotations

import enum
import hashlib
from collections import defaultdict
from collections.abc import Callable
from zlib import crc32

import anyio
import anyio.to_thread
import msgspec

from mcphub.catalog.toolset import Route
from mcphub.channel import NOT_ACTED_ON, Data
from mcphub.errors import ConfigError
from mcphub.gateway.call import AgentCall, Caller, Said
from mcphub.gateway.recorder import Recorder
from mcphub.protocol.jsonrpc import EMPTY, Raw
from mcphub.store import call_record
from mcphub.store.call_journal import CallJournal, read_file
from mcphub.store.call_record import REASON_OF, CallRecord

#: What was recorded is on the disk so many seconds later, and the time that writing takes: so much may be lost when the
#: power fails. Later where more calls than BUSY come in that time: the first store to a page after it was written costs
#: ten times as much as another.
SYNC_AFTER, SYNC_BUSY, BUSY = 1.0, 5.0, 1000
#: Of arguments above this size, in bytes, so much of both ends is digested, and their length.
DIGESTED, DIGESTED_END = 4096, 2048
#: Names of calls that are kept ready to be written.
MOST_NAMES = 1024
#: A result of a legacy server that is larger, in bytes, is looked at by its end first, where most have `isError`.
_LARGE = 4096
_NO_TRACE = bytes(16)
#: Reasons of `channel.Receiver.unanswered` that are called otherwise in the journal.
_CALLED = {"stopping": "stopped", "unsent": "lost", "overdue": "timeout"}
#: How results end whose last member is `isError`; the comma says that the name is not the end of a longer one.
_FINE = (b',"isError":false}', b', "isError": false}')
_FAILED = (b',"isError":true}', b', "isError": true}')
_END = 20


class Record(enum.Enum):
    """What the journal has of a call that a daemon before may have sent."""

    #: It was sent, or was about to be.
    THERE = enum.auto()
    #: It was not sent, or its tool was known to only read.
    NONE = enum.auto()
    #: The same, unless its record has made place for a later one.
    GONE = enum.auto()
    #: Nobody can say: another daemon's journal is there, or one that may lack some.
    UNSURE = enum.auto()


class _Says(msgspec.Struct, gc=False):
    """Members of a result itself, and not of what is in it."""

    isError: Raw = EMPTY
    resultType: Raw = EMPTY


_says = msgspec.json.Decoder(_Says).decode
_kind = msgspec.json.Decoder().decode


class Outcomes:
    """The journal of one hub; without one it says so in `problem`, and calls go on. `key` makes the digests."""

    def __init__(self, key: bytes, log: Callable[[str, str], None] = lambda level, text: None) -> None:
        self._journal: CallJournal | None = None
        # The secret goes where it costs each digest nothing (RFC 7693 has no salt; the BLAKE2 paper, 2.8, has): as a
        # key it would be a block of its own, which takes as long as the arguments of most calls.
        secret = hashlib.blake2b(key, digest_size=32, person=b"call arguments").digest()
        #: Makes a digest that nothing has gone into yet.
        self._digest = hashlib.blake2b(digest_size=16, salt=secret[:16], person=secret[16:]).copy
        self._log = log
        self._path = ""
        #: Why calls are not recorded, "" = they are.
        self.problem = ""
        self._names: dict[tuple[str, str, str, str], tuple[bytes, int]] = {}
        #: Of calls that are sent again: why an earlier attempt may have been acted on, "" = none was, and none is sent.
        self._tried: dict[int, str] = {}
        self._news = anyio.Event()
        self._due = False
        self._requests: tuple[frozenset[int], bool] | None = None
        #: What the daemon before left open, by who asked for it; and what those before it did, a while ago.
        self._left: defaultdict[int, list[CallRecord]] = defaultdict(list)
        self._left_before: defaultdict[int, list[CallRecord]] = defaultdict(list)

    def open(self, path: str) -> None:
        """Keep the journal at this path, or say why not: that calls go on counts for more."""
        self._path = path
        try:
            journal = self._journal = CallJournal(path)
        except ConfigError as error:
            self.problem = f"calls are not recorded: {error}"
            self._log("warning", self.problem)
            return
        for record in journal.left:
            self._left[record.request].append(record)
        for record in journal.left_before:
            self._left_before[record.request].append(record)
        if journal.problem:
            self._log("warning", journal.problem)
        if count := len(journal.left):
            text = "in flight when the daemon before ended; what came of them is unknown: mcphub calls --unknown"
            self._log("warning", f"{count} calls were {text}")

    # --- a call ------------------------------------------------------------------------------------------------------

    def sends(self, call: AgentCall, arguments: Data) -> None:
        """It is sent now, for the first time or again."""
        assert call.route is not None
        journal = self._journal
        if journal is None:
            return
        try:
            if call.operation and journal.again(call.operation, call.attempts):
                if self._tried.get(call.operation) == "":
                    del self._tried[call.operation]
            else:
                caller, meta, size = call.caller, call.meta, len(arguments)
                said = caller.said
                if said.route is not call.route or said.client is not caller.client:
                    said = caller.said = self._said(call.route, caller)
                digest = self._digest()
                if size <= DIGESTED:
                    digest.update(arguments)
                else:
                    digest.update(b"%d:" % size + arguments[:DIGESTED_END])
                    digest.update(arguments[-DIGESTED_END:])
                call.operation = journal.begin(
                    said.names,
                    said.check,
                    crc32(call.mid, said.pid),
                    size,
                    digest.digest(),
                    bytes.fromhex(meta.trace) if meta.trace else _NO_TRACE,
                    meta.modern,
                    call.client.era == "modern",
                )
            call.accounted = True
            if not self._due:
                self._is_due()
        except OSError as error:
            self._trouble(error)

    def answered(self, call: AgentCall, error: bool, result: Raw = EMPTY, plain: bytes = b"") -> None:
        """Its server has answered; `plain` as envelope.plain_result gives it, where it does."""
        if plain and is_fine(plain):
            outcome = call_record.ANSWERED
        else:
            outcome = call_record.ERROR if error else outcome_of(result, call.client.era == "modern")
        journal = self._journal
        if journal is None or self._tried or not self._due or outcome == call_record.UNKNOWN:
            self._close(call, outcome, "unreadable" if outcome == call_record.UNKNOWN else "")
            return
        try:
            journal.close(call.operation, outcome, call.attempts)
        except OSError as error_:
            self._trouble(error_)

    def recorder(self, route: Route, caller: Caller, to_modern: bool) -> Recorder | None:
        """What records calls, without `_meta`, of this agent to this tool; None = there is no journal, or none that
        takes several at once."""
        journal = self._journal
        if journal is None or not journal.mapped:
            return None
        return Recorder(journal, self._said(route, caller), self._digest, to_modern, self._is_due)

    def _is_due(self) -> None:
        """There is something to be put on the disk."""
        if not self._due:
            self._due = True
            self._news.set()

    def tried(self, call: AgentCall, kind: str) -> None:
        """An attempt has failed by this reason of `channel.Receiver.unanswered`, and another one will follow."""
        if kind not in NOT_ACTED_ON:
            self._tried[call.operation] = kind
        else:
            self._tried.setdefault(call.operation, "")

    def unanswered(self, call: AgentCall, kind: str) -> None:
        """No answer will come, for such a reason, and it is not sent again."""
        if kind in NOT_ACTED_ON:
            self._not_acted_on(call, kind)
        else:
            self._close(call, call_record.UNKNOWN, kind)

    def settled(self, call: AgentCall, outcome: int, reason: str = "") -> None:
        """What came of it is this outcome of store.call_record: of what its server made of it, not of its answer."""
        self._close(call, outcome, reason)

    def ended(self, call: AgentCall, kind: str) -> None:
        """It has ended before its server answered, for a reason of gateway.call.Accounts.ended."""
        journal = self._journal
        if journal is None or not journal.is_open(call.operation):
            return  # between two rounds: its server has answered the last one
        reason = kind if kind in ("not_sent", "cancelled", "timeout") else "given_up"
        if kind == "not_sent" or self._tried.get(call.operation) == "" or _untouched(call):
            self._not_acted_on(call, reason)
        else:
            self._close(call, call_record.UNKNOWN, reason)

    def _not_acted_on(self, call: AgentCall, kind: str) -> None:
        if doubt := self._tried.get(call.operation):
            self._close(call, call_record.UNKNOWN, doubt)
        else:
            self._close(call, call_record.NOT_ACTED_ON, kind)

    def unknown(self, call: AgentCall, kind: str) -> str:
        """Its agent is told that nobody knows what came of it, for a reason as in `unanswered`; returns its id."""
        self._close(call, call_record.UNKNOWN, kind)
        return self.id_of(call)

    def id_of(self, call: AgentCall) -> str:
        """Its public id, "" = it is not recorded."""
        return self._journal.id_of(call.operation) if self._journal is not None and call.operation else ""

    def _close(self, call: AgentCall, outcome: int, kind: str = "") -> None:
        journal = self._journal
        if journal is None:
            return
        if self._tried:
            self._tried.pop(call.operation, None)
        if kind:
            kind = _CALLED.get(kind, kind)
            kind = kind if kind in REASON_OF else "lost"
        try:
            journal.close(call.operation, outcome, call.attempts, kind)
            if not self._due:
                self._is_due()
        except OSError as error:
            self._trouble(error)

    def _said(self, route: Route, caller: Caller) -> Said:
        key = (route.key.name, route.definition.name, caller.client, caller.workspace)
        names, check = self._names.get(key) or self._named(key)
        return Said(route, caller.client, names, check, getattr(caller, "pid", None) or 0)

    def _named(self, key: tuple[str, str, str, str]) -> tuple[bytes, int]:
        if len(self._names) >= MOST_NAMES:
            self._names.clear()
        server, tool, client, workspace = key
        data = call_record.names(server, tool, client, workspace.partition("\0")[0])
        self._names[key] = names = data, crc32(data)
        return names

    # --- what a daemon before left -----------------------------------------------------------------------------------

    def left(self, mid: bytes, pid: int | None) -> str:
        """The id of what a daemon before had in flight under this id, as JSON, for the agent in this process; "" =
        there is none, or more than one."""
        request = crc32(mid, pid or 0)
        found = self._left.get(request, [])
        if not found and pid is not None:
            found = self._left_before.get(request, [])  # the one between did not live long enough to tell it
        return found[0].id if len(found) == 1 else ""

    @property
    def epoch(self) -> int:
        """Of the journal that is written, 0 = none is."""
        return self._journal.epoch if self._journal is not None else 0

    def record(self, mid: bytes, pid: int | None, epoch: int) -> Record:
        """Of a call that came, under this id as JSON, from the agent in this process to the daemon whose journal had
        this epoch. Reads the file, once."""
        journal = self._journal
        if journal is None or not pid or not epoch or journal.whole_of != epoch:
            return Record.UNSURE
        if self._requests is None:
            try:
                self._requests = journal.requests_of(epoch)
            except OSError:
                return Record.UNSURE
        requests, gone = self._requests
        if crc32(mid, pid) in requests:
            return Record.THERE
        return Record.GONE if gone else Record.NONE

    # --- the disk ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Put what was recorded on the disk, in groups, until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            journal = self._journal
            if journal is None:
                return
            last = journal.last
            await anyio.sleep(SYNC_AFTER)
            if journal.last - last > BUSY:
                await anyio.sleep(SYNC_BUSY - SYNC_AFTER)
            self._due = False
            try:
                await anyio.to_thread.run_sync(journal.sync, abandon_on_cancel=True)
                if self.problem:
                    self.problem = ""
                    self._log("info", "calls are recorded again")
            except OSError as error:
                self._trouble(error)

    def end(self) -> None:
        """Nothing more is recorded: what is in flight goes on in another daemon, which tells of it."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.end()

    def records(self) -> Callable[[], list[CallRecord]]:
        """Gives all that are kept, newest first, also where nothing can be added to them; to be called in a thread.
        Raises ConfigError, OSError."""
        journal, path = self._journal, self._path
        if journal is not None:
            return lambda: list(journal.records())
        return (lambda: list(read_file(path))) if path else list

    def problems(self) -> list[str]:
        """What people should know of it."""
        missed = self._journal.missed if self._journal is not None else 0
        text = f"{missed} calls were not recorded, since too many were in flight at once"
        return [p for p in (self.problem, text if missed else "") if p]

    def _trouble(self, error: OSError) -> None:
        if self._journal is not None:
            self._journal.doubt()
        if self._journal is not None and not self.problem:
            self.problem = f"calls are not recorded: cannot write {self._journal.path}: {error.strerror or error}"
            self._log("warning", self.problem)


def is_fine(plain: bytes) -> bool:
    """Whether a result of a call, an object, certainly does not say that it is an error: most do not. Seen in a
    third of the time that reading it takes."""
    return plain.endswith(_FINE) or (b"isError" not in plain and b"\\" not in plain)


def outcome_of(result: Raw, modern: bool) -> int:
    """What a server's result says came of its call, as store.call_record has it. Of its own members only: what is in
    its content, its structured content or its `_meta` may be called the same. What is no result, or none that was
    agreed on, says nothing of it."""
    if not modern and len(result) > _LARGE:
        end = bytes(memoryview(result)[-_END:])
        if end.endswith(_FINE):
            return call_record.ANSWERED
        if end.endswith(_FAILED):
            return call_record.TOOL_ERROR
    try:
        says = _says(result)
    except RecursionError:
        return call_record.ANSWERED
    except msgspec.DecodeError:
        return call_record.UNKNOWN  # no object
    kind = bytes(says.resultType) if modern else b""
    if kind and kind != b'"complete"' and (name := _kind(kind)) != "complete":
        return call_record.INPUT if name == "input_required" else call_record.UNKNOWN
    return call_record.TOOL_ERROR if bytes(says.isError) == b"true" else call_record.ANSWERED


def _untouched(call: AgentCall) -> bool:
    """Whether its request waits in mcphub: to be sent, or to be sent again after a server that wanted fewer."""
    return call.task is None and call.client.untouched(call.up_id)
