"""Owns how joserfc is told what to take in a signed token: the algorithms that its caller names, and nothing by itself.

It must not know keys, claims, or what a token is for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from joserfc.errors import UnsupportedAlgorithmError
from joserfc.jws import JWSRegistry


class Registry(JWSRegistry):
    """For these algorithms. Header parameters that nobody here knows are let be, but for critical ones, as RFC 7515
    has it: identity providers add some of their own. Of an algorithm that was named here nobody is warned: `EdDSA` is
    an old name of Ed25519, and most servers know that one alone."""

    max_header_length = 8192

    def __init__(self, algorithms: Collection[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)
        self._named = frozenset(algorithms)

    def get_alg(self, name: str) -> Any:
        # Its own way would take what it recommends, HS256 among them, where none was named.
        if name not in self._named or name not in self.algorithms:
            raise UnsupportedAlgorithmError(f"algorithm {name!r} is not taken here")
        return self.algorithms[name]
