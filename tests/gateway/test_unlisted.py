"""To which server a name or URI would belong."""

from __future__ import annotations

import pytest

from mcphub.gateway.unlisted import whose_name, whose_uri
from mcphub.spec import InstanceKey

SEEN = {name: InstanceKey(name, "d") for name in ("a", "a__b", "plugin:x:db")}


@pytest.mark.parametrize(
    ("name", "server"),
    [("mcp__a__t", "a"), ("mcp__a__b__t", "a__b"), ("mcp__plugin_x_db__t", "plugin:x:db"), ("mcp__c__t", "")],
)
def test_names(name: str, server: str) -> None:
    """By the longest beginning that is a server's."""
    assert whose_name(SEEN, "", name) == SEEN.get(server)
    assert whose_name({}, "", name) is None


@pytest.mark.parametrize(
    ("uri", "server"), [("mcphub://a/x:1", "a"), ("ui://a__b/x", "a__b"), ("mcphub://c/x", ""), ("x:1", "")]
)
def test_uris(uri: str, server: str) -> None:
    """By the server's name in it; a bare one may be anybody's."""
    assert whose_uri(SEEN, "", uri) == SEEN.get(server)


def test_a_view() -> None:
    """Everything is of its one server."""
    seen = {"a": SEEN["a"]}
    assert whose_name(seen, "a", "t") == whose_uri(seen, "a", "x:1") == SEEN["a"]
    assert whose_name({}, "a", "t") is whose_uri({}, "a", "x:1") is None
