"""Owns the list of places that servers come from; its order is the order of precedence.

It must not know what an entry means. A new place is one file here and one line in SOURCES.
"""

from __future__ import annotations

from typing import Protocol

from mcphub.config.layer import Layer
from mcphub.spec import Scope

from .dynamic import DynamicSource
from .embedded import EmbeddedSource
from .enterprise import EnterpriseSource
from .local import LocalSource
from .managed import ManagedSource
from .plugin import PluginSource
from .project import ProjectSource
from .request import Request
from .user import UserSource
from .webapp import WebappSource


class Source(Protocol):
    """One place. `load` gives its layers, those that win first; it never raises, what is wrong is in the layers."""

    @property
    def scope(self) -> Scope: ...

    def load(self, request: Request) -> list[Layer]: ...


#: Highest precedence first.
SOURCES: tuple[Source, ...] = (
    EnterpriseSource(), ManagedSource(),
    DynamicSource(), LocalSource(), ProjectSource(), UserSource(), PluginSource(), WebappSource(), EmbeddedSource(),
)
