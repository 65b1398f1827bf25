"""The server that mcphub brings itself."""

from __future__ import annotations

from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import parse_entry
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources.embedded import EmbeddedSource
from mcphub.config.sources.request import Request
from mcphub.spec import InProcessSpec, ServerSpec


def test_it_is_an_entry_like_any_other() -> None:
    """One entry, which becomes a spec for the server named `welcome` inside the daemon."""
    (layer,) = EmbeddedSource().load(Request("", Places("/h", "/c", "/s"), Reader()))
    (entry,) = layer.entries
    outcome = parse_entry(entry, layer.directory, Context()).outcome
    assert isinstance(outcome, ServerSpec)
    assert (outcome.name, outcome.transport, outcome.workspace) == ("mcphub", InProcessSpec("welcome"), "")
