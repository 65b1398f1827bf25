"""Owns the file that remembers which servers wanted a sign-in: when, and which scopes they named. Nothing secret.

It must not know how anybody signs in. It is there so that a restart does not ask in vain, or forget what was missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.store.state_file import StateFile

#: Entries that are kept; the oldest go first.
MOST = 1000


class Challenged(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at` is wall clock seconds. `scopes` were named as missing."""

    at: float
    scopes: tuple[str, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    servers: dict[str, Challenged] = {}


class ChallengeStore:
    """The file at `path`: {key of an account: what it was told}. Blocking calls."""

    def __init__(self, path: str) -> None:
        self._file = StateFile(path, _Document, lost="servers are asked again whether they want a sign-in")

    def load(self) -> tuple[Mapping[str, Challenged], tuple[str, ...]]:
        document, problems = self._file.load()
        return document.servers, problems

    def keep(self, key: str, challenged: Challenged) -> None:
        """Raises ConfigError where the file cannot be written."""

        def changed(document: _Document) -> _Document:
            servers = {name: one for name, one in document.servers.items() if name != key}
            servers[key] = challenged
            newest = sorted(servers.items(), key=lambda item: item[1].at)[-MOST:]
            return _Document(dict(newest))

        self._file.change(changed)

    def forget(self, key: str) -> None:
        """Raises ConfigError where the file cannot be written."""
        self._file.change(lambda document: _Document({k: v for k, v in document.servers.items() if k != key}))
