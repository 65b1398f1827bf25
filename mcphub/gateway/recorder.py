"""Owns what the outcome journal is told of many calls of one agent to one tool at once, as Outcomes tells it of each.

It must not know what a call is, nor why any of them ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import repeat
from zlib import crc32

from mcphub.gateway.call import Said
from mcphub.protocol.jsonrpc import Raw
from mcphub.store.call_journal import CallJournal


class Recorder:
    """Of calls without a trace to a server of the era `to_modern`. `digest` makes a digest that nothing has gone into
    yet; `news` is called whenever there is something to be put on the disk."""

    def __init__(
        self,
        journal: CallJournal,
        said: Said,
        digest: Callable[[], blake2b],
        to_modern: bool,
        news: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._form = journal.form(said.names, said.check, to_modern)
        self._pid = said.pid
        self._digest = digest
        self._news = news

    def begin(self, mids: Sequence[bytes], arguments: Sequence[Raw]) -> Sequence[int]:
        """Calls under these ids, as JSON, are about to be sent, with arguments that are digested as a whole. Returns
        their numbers; none = they are not recorded."""
        digests: list[bytes] = []
        empty, add = self._digest, digests.append
        for given in arguments:
            digest = empty()
            digest.update(given)
            add(digest.digest())
        requests = list(map(crc32, mids, repeat(self._pid)))
        numbers = self._journal.begin_all(self._form, requests, list(map(len, arguments)), digests)
        self._news()
        return numbers

    def answered(self, numbers: Sequence[int]) -> bool:
        """Whether it is recorded now that these calls, which were sent once, have been answered by results that say no
        error; False = nothing was."""
        done = self._journal.answered_all(numbers)
        self._news()
        return done
