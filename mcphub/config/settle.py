"""Owns what holds while administrators' files are being written: for a short time, what they said before.

It must not read files or a clock, nor know what the files say.
"""

from __future__ import annotations

from mcphub.spec import Scope

from .layer import Layer

#: Seconds for which a file that broke or vanished may be one that is just being replaced.
SETTLE = 2.0

_GOVERNING = (Scope.ENTERPRISE, Scope.MANAGED)


def settled(
    current: tuple[Layer, ...], previous: tuple[Layer, ...], since: float | None, now: float
) -> tuple[tuple[Layer, ...], float | None]:
    """The layers in force, and since when they are not those that were just read (None = they are).

    `previous` were in force before, waiting since `since`. A file of an administrator that is broken now and was not,
    or is gone, must neither stop every server nor let one start that it forbade; after `SETTLE` seconds it counts as
    it is. Whatever is good now counts at once.
    """
    before, after = governing(previous), governing(current)
    if not _worse(before, after):
        return current, None
    since = now if since is None else since
    if now - since >= SETTLE:
        return current, None
    return (*before, *(layer for layer in current if layer.scope not in _GOVERNING)), since


def governing(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Those that come from administrators."""
    return tuple(layer for layer in layers if layer.scope in _GOVERNING)


def _worse(before: tuple[Layer, ...], after: tuple[Layer, ...]) -> bool:
    found = {(layer.scope, layer.path) for layer in after if _says_something(layer)}
    if any((layer.scope, layer.path) not in found for layer in before if _says_something(layer)):
        return True
    known = {(layer.scope, layer.path) for layer in before if layer.faulty}
    return any((layer.scope, layer.path) not in known for layer in after if layer.faulty)


def _says_something(layer: Layer) -> bool:
    # Where a file no longer names a URL, what came from there is gone on purpose.
    return layer.scope is Scope.ENTERPRISE or (layer.policy is not None and not layer.path.startswith("https://"))
