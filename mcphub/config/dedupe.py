"""Owns which servers are one and the same, come from several sides, and so run once.

It must not know whether a server may run, nor how it is run. Names do not matter here: a plugin calls a server what it
likes. Nor does content alone: two entries for one program with two accounts are two servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl

import msgspec

from mcphub.spec import HttpSpec, Off, Scope, ServerSpec, StdioSpec

from .resolve import Resolved, ResolvedSet
from .urls import DEFAULT_PORTS, split_url

#: What nobody wrote by hand for themselves; only such an entry is ever taken out for another.
_BROUGHT = frozenset([Scope.PLUGIN, Scope.WEBAPP])
#: A rewritten URL may have been rewritten before.
_MAX_WRAPS = 4

Signature = tuple[str, ...]
#: What an entry brings of its own that tells one account from another.
Identity = Mapping[Hashable, str]


class Unwrap(msgspec.Struct, frozen=True):
    """A URL on one of `hosts` (`*.example.com` = any below it) stands for the one in the query's `parameter`."""

    hosts: tuple[str, ...] = ()
    parameter: str = "mcp_url"

    def url(self, text: str) -> str:
        """What `text` stands for; itself where no rule is about it."""
        for _ in range(_MAX_WRAPS):
            parts = split_url(text)
            if parts is None or not self._covers(parts.hostname or ""):
                break
            inner = [value for name, value in parse_qsl(parts.query) if name == self.parameter]
            if len(inner) != 1 or (found := split_url(inner[0])) is None or found.scheme not in DEFAULT_PORTS:
                break
            text = inner[0]
        return text

    def _covers(self, host: str) -> bool:
        host = host.rstrip(".").lower()
        return any(
            host.endswith(one[1:].lower()) if one.startswith("*.") else host == one.lower() for one in self.hosts
        )


def dedupe(
    resolved: ResolvedSet, unwrap: Unwrap, runs: Callable[[Resolved], bool] | None = None
) -> ResolvedSet:
    """`resolved` where a server that a plugin or a catalogue brought is off, `because` "duplicate", if another that
    `runs` is the same one; the detail names it. See `duplicates`."""
    found = duplicates(resolved, unwrap, runs)
    if not found:
        return resolved
    changed = {name: _suppressed(resolved.servers[name], winner) for name, winner in found.items()}
    return replace(resolved, servers={**resolved.servers, **changed})


def duplicates(
    resolved: ResolvedSet, unwrap: Unwrap, runs: Callable[[Resolved], bool] | None = None
) -> dict[str, Resolved]:
    """The names of servers that run in vain, each with the one that is the same and runs in its place.

    An entry that a person or an organisation wrote is never taken out. Among those that were brought the first of the
    layers counts. One that brings `env`, `cwd`, `headers` or `oauth` other than the winner's is a server of its own.
    `runs` says whether a server would run otherwise (default: nothing is wrong with it): one that does not is neither
    taken out nor a reason to take another out.
    """
    if not any(one.origin.scope in _BROUGHT for one in resolved.servers.values()):
        return {}
    ready = runs if runs is not None else _is_ready
    alike: dict[Signature, list[Resolved]] = {}
    for one in _in_order(resolved):
        if (found := signature(one, unwrap)) is not None:
            alike.setdefault(found, []).append(one)

    taken_out: dict[str, Resolved] = {}
    for group in alike.values():
        if len(group) == 1 or all(one.origin.scope not in _BROUGHT for one in group):
            continue
        running = [one for one in group if ready(one)]  # asked only here: it costs a look at policy
        winners = [one for one in running if one.origin.scope not in _BROUGHT]
        for one in running:
            if one.origin.scope not in _BROUGHT:
                continue
            winner = next((other for other in winners if same_account(one, other)), None)
            if winner is None:
                winners.append(one)
            else:
                taken_out[one.name] = winner
    return taken_out


def signature(resolved: Resolved, unwrap: Unwrap) -> Signature | None:
    """What the server is, whatever it is called: its kind and its argument list, or its kind and unwrapped URL. None
    where there is nothing that could be the same as another."""
    transport = resolved.spec.transport if resolved.spec is not None else None
    if isinstance(transport, StdioSpec):
        return (transport.kind, transport.command, *transport.args)
    if isinstance(transport, HttpSpec):
        return (transport.kind, _normal(unwrap.url(str(transport.url))))
    return None


def identity(resolved: Resolved) -> Identity:
    """What the entry brings of its own: variables, directory, headers, OAuth client. Values are secrets."""
    assert resolved.spec is not None and resolved.entry is not None
    transport, entry = resolved.spec.transport, resolved.entry
    found: dict[Hashable, str] = {}
    if isinstance(transport, StdioSpec):
        found = {
            ("env", name): str(value) for name, value in transport.env.items() if entry.variables.get(name) != value
        }
        if entry.raw.get("cwd"):
            found["cwd"] = transport.cwd
    elif isinstance(transport, HttpSpec):
        found = {("header", name.lower()): str(value) for name, value in transport.headers.items()}
        if transport.helper is not None:
            found["helper"] = transport.helper.shown
        if transport.tls is not None:
            found["tls"] = repr(transport.tls)
        if entry.raw.get("oauth"):
            found["oauth"] = json.dumps(entry.raw["oauth"], sort_keys=True)
    return found


def same_account(one: Resolved, other: Resolved) -> bool:
    """`one` brings nothing that `other` does not have just so."""
    theirs = identity(other)
    return all(theirs.get(key) == value for key, value in identity(one).items())


def _is_ready(resolved: Resolved) -> bool:
    return isinstance(resolved.outcome, ServerSpec)


def _in_order(resolved: ResolvedSet) -> list[Resolved]:
    """The servers that some layer's entry became, by precedence."""
    found = []
    for layer in resolved.layers:
        for entry in layer.entries:
            one = resolved.servers.get(entry.name)
            if one is not None and one.origin == entry.origin:
                found.append(one)
    return found


def _suppressed(one: Resolved, winner: Resolved) -> Resolved:
    assert one.spec is not None
    detail = (
        f"the same server as {winner.name} ({winner.origin.scope}, {winner.origin}), which runs in its place; to use "
        "this one, remove that"
    )
    # Only for agents of the winner's workspace, where it has one: others see no winner.
    return msgspec.structs.replace(one, outcome=Off(one.spec, "duplicate", detail, workspace=winner.workspace))


def _normal(url: str) -> str:
    """One spelling for all that mean the same: scheme and host in lower case, no default port, no fragment."""
    parts = split_url(url)
    if parts is None:
        return url
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    user, at, _ = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user}{at}{host}:{port}{parts.path or '/'}?{parts.query}"
