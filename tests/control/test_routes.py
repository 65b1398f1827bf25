"""The one table of the control API."""

from __future__ import annotations

import inspect

import pytest

from mcphub.control.access import OpenAccess, OwnerAccess
from mcphub.control.routes import ROUTES, Route, Stream

#: Routes that show what lets somebody in.
SECRETS = {"/v1/url"}


def test_a_path_has_one_route() -> None:
    """Two lines for one path would hide each other."""
    paths = [route.path for route in ROUTES]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_reading_is_open_and_changing_is_the_owners(route: Route) -> None:
    """A route that changes something is no GET, and nobody but the owner may use it; nor one that shows a secret."""
    owners = route.method != "GET" or route.path in SECRETS
    assert isinstance(route.access, OpenAccess) == (not owners)
    assert isinstance(route.access, OwnerAccess) == owners


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_every_route_is_documented_and_of_its_kind(route: Route) -> None:
    """The generated page is as good as these docstrings."""
    handler = route.kind.handler
    doc = inspect.getdoc(handler) or ""
    assert "Answers: " in doc
    assert ("Body: " if route.method == "POST" else "Query: ") in doc
    assert inspect.isasyncgenfunction(handler) == isinstance(route.kind, Stream)
