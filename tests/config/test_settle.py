"""What holds while administrators' files are being written."""

from __future__ import annotations

from mcphub.config.document import file_problem
from mcphub.config.layer import Layer
from mcphub.config.managed_document import broken, parse_managed
from mcphub.config.settle import SETTLE, settled
from mcphub.spec import Scope

DIRECTORY = "/etc/mcphub"
MCP = f"{DIRECTORY}/managed-mcp.json"
SETTINGS = f"{DIRECTORY}/managed-settings.json"

user = Layer(Scope.USER, "/c/mcp.json")
changed_user = Layer(Scope.USER, "/c/mcp.json", warnings=("changed",))
good = parse_managed(b'{"deniedMcpServers":[]}', path=SETTINGS, directory=DIRECTORY)
other = parse_managed(b'{"deniedMcpServers":[{"serverName":"x"}]}', path=SETTINGS, directory=DIRECTORY)
bad = broken(SETTINGS, DIRECTORY, "cannot use it")
fetched = parse_managed(b"{}", path="https://f.example/", directory=DIRECTORY)
enterprise = Layer(Scope.ENTERPRISE, MCP, DIRECTORY)
bad_enterprise = file_problem(Scope.ENTERPRISE, MCP, DIRECTORY, "cannot use it")
only_warnings = Layer(Scope.MANAGED, DIRECTORY, warnings=("not read",))

#: what was in force, what was read, whether the former holds for a moment
TABLE: dict[str, tuple[tuple[Layer, ...], tuple[Layer, ...], bool]] = {
    "nothing": ((), (), False),
    "settings appear": ((), (good,), False),
    "settings change": ((good,), (other,), False),
    "settings break": ((good,), (bad,), True),
    "settings break in another way": ((bad,), (broken(SETTINGS, DIRECTORY, "otherwise"),), False),
    "settings are mended": ((bad,), (good,), False),
    "settings appear broken": ((), (bad,), True),
    "settings vanish": ((good,), (), True),
    "broken settings vanish": ((bad,), (), True),
    "a URL is named no longer": ((fetched, good), (good,), False),
    "warnings vanish": ((only_warnings,), (), False),
    "an enterprise's file appears": ((good,), (enterprise, good), False),
    "an enterprise's file breaks": ((enterprise,), (bad_enterprise,), True),
    "an enterprise's file appears broken": ((good,), (bad_enterprise, good), True),
    "an enterprise's file vanishes": ((enterprise, good), (good,), True),
}


def test_table() -> None:
    """C014: what broke or vanished counts as it was, what is good at once; what others wrote is never held back."""
    for case, (before, after, held) in TABLE.items():
        found, since = settled((*after, changed_user), (*before, user), None, 100.0)
        assert (found, since) == ((*(before if held else after), changed_user), 100.0 if held else None), case


def test_for_a_moment_only() -> None:
    """What was in force holds for SETTLE seconds since the first trouble, whatever happens to the file meanwhile."""
    before, after = (good, user), (bad, user)
    assert settled(after, before, 100.0, 100.0 + SETTLE - 0.01) == (before, 100.0)
    assert settled((user,), before, 100.0, 100.0 + SETTLE - 0.01) == (before, 100.0)
    assert settled(after, before, 100.0, 100.0 + SETTLE) == (after, None)
    assert settled((other, user), before, 100.0, 100.0 + SETTLE - 0.01) == ((other, user), None)
