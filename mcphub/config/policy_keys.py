"""Owns the names of the keys that hold rules of policy, and finding one that stands where it does not count.

It must not know what a rule means, nor which file it is looked for in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .spelling import near_miss

#: A person's own rules stand below it, in settings.toml.
TABLE = "policy"
ALLOWED, DENIED = "allowedMcpServers", "deniedMcpServers"
ALLOWED_TOOLS, DENIED_TOOLS = "allowedTools", "deniedTools"
MANAGED_ONLY = "allowManagedMcpServersOnly"
CONNECTORS = "allowAllClaudeAiMcps"
#: A key that is nearly one of these is wrong.
GUARDED = (ALLOWED, DENIED, ALLOWED_TOOLS, DENIED_TOOLS, MANAGED_ONLY, CONNECTORS)
#: Those that no other program has for anything else.
UNMISTAKABLE = (ALLOWED, DENIED, MANAGED_ONLY)

Path = tuple[str | int, ...]


def misplaced(
    value: object, wanted: Collection[str], skip: Collection[str] = (), path: Path = ()
) -> Iterator[tuple[Path, str]]:
    """The place of each key in `value`, at any depth, that is or nearly is one of `wanted`, with the one that it is
    meant to be. What stands below such a key is not looked at, nor below those of `skip` at the top."""
    rest: list[tuple[Path, object]] = [(path, value)]
    while rest:
        place, one = rest.pop(0)
        if isinstance(one, list):
            rest += [((*place, index), item) for index, item in enumerate(one) if isinstance(item, (dict, list))]
        if not isinstance(one, dict):
            continue
        for key, below in one.items():
            if place == path and key in skip:
                continue
            if meant := key if key in wanted else near_miss(key, wanted):
                yield (*place, key), meant
            elif isinstance(below, (dict, list)):
                rest.append(((*place, key), below))


def misspelt(meant: str) -> str:
    """What is wrong with a key that was probably meant to be this one: the end of a sentence."""
    return f"unknown key, probably meant as {meant}; correct it, since it does not count like this"


def in_vain(found: str, meant: str, where: str) -> str:
    """What is wrong with a key that is `meant`, or nearly, and stands where no rules are read: they are at `where`."""
    return misspelt(meant) if found != meant else f"it does not count here; move it {where}"
