"""Owns the merged prompts, resources and resource templates of one view: routes, and the rendered lists.

It must not know sessions or requests. Like the toolset it is immutable and hashed; equal inputs give equal bytes. A
prompt is named like a tool; a URI gets its server's prefix (protocol/content), or stays as it is in a view of one
server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mcphub.catalog.hygiene import (
    DEFAULT_LENGTH,
    clean,
    clean_counted,
    clean_schema,
    shorten,
    shorten_schema,
    suspicious,
)
from mcphub.catalog.naming import DEFAULT_MAX_LENGTH, exposed_names
from mcphub.catalog.pages import DEFAULT_PAGE_BYTES, Pages, cut
from mcphub.protocol import own_word
from mcphub.protocol.content import ORIGINAL_KEY, SCHEME, conceal, expose
from mcphub.protocol.jsonrpc import Raw, quote
from mcphub.protocol.uri_template import UriTemplate, read_template
from mcphub.spec import InstanceKey

PROMPTS = "prompts/list"
RESOURCES = "resources/list"
TEMPLATES = "resources/templates/list"
#: Method to the member of its result that holds the list.
MEMBERS = {PROMPTS: "prompts", RESOURCES: "resources", TEMPLATES: "resourceTemplates"}
#: Items of one list above this many are not listed.
MAX_ITEMS = 10_000
#: Templates of one server above this many lead nowhere by a raw URI; listed they are.
MAX_TEMPLATES = 100

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_TEXTS = frozenset({"title", "description"})
#: Further members that are read: the name of what has a URI, what a prompt is given.
_SPOKEN = frozenset({"name", "arguments"})


class Shelf(msgspec.Struct, frozen=True):
    """What one instance brings: the raw items of each list it has."""

    key: InstanceKey
    lists: Mapping[str, tuple[bytes, ...]]


class Lead(msgspec.Struct, frozen=True):
    """Where a name or URI leads: the instance, and the server's own name or URI."""

    key: InstanceKey
    original: str


class Library(msgspec.Struct, frozen=True):
    """`pages` are by method. `digests[method]` change with what agents see."""

    prompts: Mapping[str, Lead] = msgspec.field(default_factory=dict)
    pages: Mapping[str, Pages] = msgspec.field(default_factory=dict)
    digests: Mapping[str, str] = msgspec.field(default_factory=dict)
    keys: Mapping[str, InstanceKey] = msgspec.field(default_factory=dict)
    prefixed: bool = True
    _owners: Mapping[str, tuple[Lead, ...]] = msgspec.field(default_factory=dict)
    _templates: tuple[tuple[UriTemplate, InstanceKey], ...] = ()

    def expose(self, server: str, uri: str) -> str:
        """The URI that agents of this view see for one of this server's."""
        return expose(server, uri) if self.prefixed else uri

    def find(self, uri: str) -> tuple[Lead, ...]:
        """Where a URI leads: one lead, none, or several where a raw URI is owned by several servers."""
        if not self.prefixed:
            return tuple(Lead(key, uri) for key in self.keys.values())[:1]
        owners = self._owners.get(uri, ())
        found = conceal(uri)
        if found is not None and found[0] in self.keys:
            lead = Lead(self.keys[found[0]], found[1])
            # What has the form of an exposed `ui://` may be a server's own: only what is listed can tell.
            if not owners or uri.startswith(SCHEME) or lead in self._owners.get(found[1], ()):
                return (lead,)
        if owners:
            return owners
        leads: dict[InstanceKey, Lead] = {}
        for template, key in self._templates:
            if key not in leads and template.matches(uri):
                leads[key] = Lead(key, uri)
        return tuple(leads.values())


def merge(
    shelves: Sequence[Shelf],
    servers: Sequence[str],
    *,
    prefixed: bool = True,
    max_length: int = DEFAULT_MAX_LENGTH,
    page_bytes: int = DEFAULT_PAGE_BYTES,
    limit: int = DEFAULT_LENGTH,
) -> Library:
    """The merged library: servers by name, each in its own order. `servers` are all configured names of the view;
    `limit`: characters of one text that agents see."""
    shelves = sorted(shelves, key=lambda s: s.key)
    prompts: dict[str, Lead] = {}
    owners: dict[str, list[Lead]] = {}
    templates: list[tuple[UriTemplate, InstanceKey]] = []
    lists: dict[str, list[bytes]] = {method: [] for method in MEMBERS}
    for shelf in shelves:
        name = shelf.key.name
        found = _read(shelf.lists.get(PROMPTS, ()), "name")
        exposed = exposed_names(name, list(found), servers, max_length) if prefixed else [clean(one) for one in found]
        for shown, (original, fields) in zip(exposed, found.items(), strict=True):
            if shown not in prompts:
                prompts[shown] = Lead(shelf.key, original)
                lists[PROMPTS].append(_render(fields, "name", shown, None, limit))

        def uri_of(uri: str, name: str = name) -> str:
            return expose(name, uri) if prefixed else uri

        for uri, fields in _read(shelf.lists.get(RESOURCES, ()), "uri").items():
            owners.setdefault(uri, []).append(Lead(shelf.key, uri))
            lists[RESOURCES].append(_render(fields, "uri", uri_of(uri), uri if prefixed else None, limit))
        for number, (template, fields) in enumerate(_read(shelf.lists.get(TEMPLATES, ()), "uriTemplate").items()):
            if number < MAX_TEMPLATES and prefixed:
                templates.append((read_template(template), shelf.key))
            kept = template if prefixed else None
            lists[TEMPLATES].append(_render(fields, "uriTemplate", uri_of(template), kept, limit))
    pages = {method: cut(member, lists[method], lists[method], page_bytes) for method, member in MEMBERS.items()}
    return Library(
        prompts,
        pages,
        {method: found.digest for method, found in pages.items()},
        {shelf.key.name: shelf.key for shelf in shelves},
        prefixed,
        {uri: tuple(leads) for uri, leads in owners.items()},
        tuple(templates),
    )


def _read(items: Iterable[bytes], key: str) -> dict[str, dict[str, Raw]]:
    """The usable items of a list by their name or URI; the first of a duplicate counts."""
    out: dict[str, dict[str, Raw]] = {}
    for raw in items:
        if len(out) >= MAX_ITEMS:
            break
        try:
            fields = _members(raw)
            value = _string(fields[key])
        except (msgspec.DecodeError, KeyError, RecursionError):
            continue
        if value:
            out.setdefault(value, fields)
    return out


def _render(fields: Mapping[str, Raw], key: str, shown: str, original: str | None, limit: int) -> bytes:
    """An item under its exposed name or URI; the original stays readable in `_meta`."""
    out: dict[str, Raw] = {key: Raw(quote(shown))}
    for name, value in fields.items():
        if name == key or bytes(value) == b"null":
            continue
        if name in _SPOKEN and suspicious(bytes(value)):
            value = Raw(_spoken(name, value)[0])
        if name == "_meta":
            value = Raw(own_word.without(bytes(value)))
        if name == "arguments":
            value = Raw(shorten_schema(bytes(value), limit)[0])
        if name not in _TEXTS:
            out[name] = value
        elif text := _text(value, limit):
            out[name] = Raw(text)
    if original is not None:
        meta: dict[str, Raw] = {}
        try:
            meta = _members(out["_meta"]) if "_meta" in out else {}
        except (msgspec.DecodeError, RecursionError):
            meta = {}
        meta[ORIGINAL_KEY] = Raw(quote(original))
        out["_meta"] = Raw(msgspec.json.encode(meta))
    return msgspec.json.encode(out)


def unclean(lists: Mapping[str, Iterable[bytes]]) -> int:
    """How many characters of these lists nobody is shown."""
    removed = 0
    for raw in (raw for items in lists.values() for raw in items if suspicious(raw)):
        try:
            fields = _members(raw)
            removed += sum(_spoken(name, fields[name])[1] for name in (*_TEXTS, *_SPOKEN) if name in fields)
        except (msgspec.DecodeError, RecursionError):
            continue
    return removed


def _spoken(name: str, raw: Raw) -> tuple[bytes, int]:
    """A member that people and models read, clean, and how many characters went; the same bytes where it is odd."""
    if name == "arguments":
        return clean_schema(bytes(raw))  # a list of names with titles and descriptions
    try:
        text, removed = clean_counted(_string(raw))
        return (quote(text), removed) if removed else (bytes(raw), 0)
    except msgspec.DecodeError:
        return bytes(raw), 0


def overlong(lists: Mapping[str, Iterable[bytes]], limit: int) -> int:
    """How many texts of these lists agents are not shown whole."""
    count = 0
    for raw in (raw for items in lists.values() for raw in items if len(raw) > limit):
        try:
            fields = _members(raw)
            count += sum(len(clean(_string(fields[name]))) > limit for name in _TEXTS if name in fields)
            count += shorten_schema(bytes(fields["arguments"]), limit)[1] if "arguments" in fields else 0
        except (msgspec.DecodeError, RecursionError):
            continue
    return count


def _text(raw: Raw, limit: int) -> bytes:
    """A text fit to be shown, b"" where it is none: a member of another type is left out."""
    try:
        return quote(shorten(clean(_string(raw)), limit))
    except msgspec.DecodeError:
        return b""


