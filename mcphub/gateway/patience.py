"""Owns how long a person may take to answer a question of a server's: what its entry says, for all ways of asking.

It must not ask, nor know what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.connection.worker import Worker
from mcphub.spec import INPUT_TIMEOUT, InstanceKey


class Patience:
    """`workers` is the supervisor's table."""

    def __init__(self, workers: Mapping[InstanceKey, Worker]) -> None:
        self._workers = workers

    def __call__(self, key: InstanceKey) -> float:
        """Seconds; as without an entry where the server was removed meanwhile."""
        worker = self._workers.get(key)
        return worker.spec.input_timeout if worker is not None else INPUT_TIMEOUT
