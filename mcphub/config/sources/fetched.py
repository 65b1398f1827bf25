"""Owns managed settings from a URL: the last copy of them, and what holds while there is none.

It must not fetch anything, nor know what the rules in them mean.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from mcphub.config.layer import Layer
from mcphub.config.managed_document import broken, parse_managed
from mcphub.config.remote_settings import RemoteSettings
from mcphub.errors import ConfigError
from mcphub.spec import Scope
from mcphub.store.fetched_settings import Copy, fetched_settings_file

from .request import Request

#: Seconds for which a copy that cannot be confirmed counts where the absence of settings closes.
MAX_AGE = 24 * 3600


def fetched_layers(request: Request, below: Sequence[Layer]) -> list[Layer]:
    """One layer where a document of `below`, the highest that does, names a URL."""
    remote = next((layer.remote for layer in below if layer.remote is not None), None)
    if remote is None:
        return []
    path, directory = request.places.fetched_settings, request.places.system.directory
    copy = Copy()
    problems: tuple[str, ...]
    try:
        copy, problems = fetched_settings_file(path).understand(request.reader.read(path))
    except ConfigError as error:
        problems = (str(error),)
    return [_layer(remote, copy, problems, directory, time.time_ns() // 10**9)]


def _layer(remote: RemoteSettings, copy: Copy, problems: Sequence[str], directory: str, now: int) -> Layer:
    shown = remote.shown
    if copy.url != remote.url:
        copy = Copy()
    failed = f": {copy.error}" if copy.error else ""
    if not copy.document and copy.fault:
        return broken(shown, directory, copy.fault if copy.error in ("", copy.fault) else f"{copy.fault}{failed}")
    if not copy.document:
        text = f"cannot use the managed settings of {shown}: not fetched yet{failed}"
        if remote.fail_closed:
            return broken(shown, directory, f"{text} ({remote.origin} says failClosed)")
        return Layer(Scope.MANAGED, shown, directory, warnings=(*problems, text))
    if remote.fail_closed and not -MAX_AGE <= now - copy.confirmed <= MAX_AGE:
        text = f"cannot use the managed settings of {shown}: not confirmed for {(now - copy.confirmed) // 3600} hours"
        return broken(shown, directory, f"{text}{failed} ({remote.origin} says failClosed)")
    layer = parse_managed(copy.document.encode("utf-8", "surrogatepass"), path=shown, directory=directory, fetched=True)
    if not copy.error:
        return layer
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(copy.confirmed))
    warning = f"cannot refresh the managed settings of {shown}{failed}; as they were at {when} they stay in force"
    return msgspec.structs.replace(layer, warnings=(*layer.warnings, warning))
