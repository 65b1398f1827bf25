"""Owns changing one member of a JSON document with comments that a person wrote: text in, text out.

It must not know files, nor what a member means. What is not the changed member stays byte for byte: comments, order,
indentation, trailing commas, line ends, a byte order mark. New text follows the style around it. A removed member takes
the rest of its lines along, a comment behind it too; comments on lines of their own stay.

Every result is read back and compared with what was wanted before anybody sees it, so a layout that this module does
not understand is an error and never a broken file.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcphub.errors import ConfigError

from . import jsonc
from .jsonc import kind_of

#: Columns that a list of plain values, or an object on one line, may fill.
WIDTH = 100

_BOM = "\ufeff"
_BLANKS = re.compile(r"[ \t\r\n]*(?://[^\r\n]*|/\*.*?\*/|[ \t\r\n]+)*", re.DOTALL)
_SAME_LINE = re.compile(r"[ \t]*(?:/\*.*?\*/[ \t]*)*(?://[^\r\n]*)?", re.DOTALL)
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r"[A-Za-z0-9_.+-]+")

Path = tuple[str, ...]


def set_member(data: bytes | None, path: Path, value: Any) -> bytes:
    """`data` with `value` (plain JSON) at `path`; objects on the way are made. None or blank text = a new document.

    A member that is there keeps its place, a new one becomes the last of its object. Raises JsoncError where `data` is
    not such a document, ConfigError where something on the way is no object or the value cannot be written.
    """
    text, document = _read(data)
    wanted = _with(document, path, value)
    bom = text.startswith(_BOM)
    body = text.removeprefix(_BOM)
    style = _Style.of(body)
    if not body.strip():
        made = style.render(wanted, "") + style.newline
    else:
        made = _set(body, _scan(body), path, value, style)
    return _checked(made, wanted, bom)


def remove_member(data: bytes, path: Path) -> bytes:
    """`data` without the member at `path`; as it is where there is none. Raises as `set_member`."""
    text, document = _read(data)
    if not _has(document, path):
        return data
    bom = text.startswith(_BOM)
    body = text.removeprefix(_BOM)
    return _checked(_removed(body, _scan(body), path), _without(document, path), bom)


def has_member(data: bytes | None, path: Path) -> bool:
    """Whether something stands at `path`. Raises JsoncError as `set_member`."""
    return _has(_read(data)[1], path)


# --- values ----------------------------------------------------------------------------------------------------------


def _read(data: bytes | None) -> tuple[str, Any]:
    """The text and its value; blank text is an empty object, since that is what a file will be that nobody filled."""
    if data is None or not data.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n"):
        return (data or b"").decode("utf-8"), {}
    value = jsonc.parse(data).value
    return data.decode("utf-8"), value


def _has(document: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(document, dict) or step not in document:
            return False
        document = document[step]
    return True


def _with(document: Any, path: Path, value: Any) -> Any:
    whole = copy.deepcopy(document)
    place = whole
    for index, step in enumerate(path):
        if not isinstance(place, dict):
            where = ".".join(path[:index]) or "the top"
            raise ConfigError(f"expected an object at {where}, found {kind_of(place)}")
        if index == len(path) - 1:
            place[step] = value
        else:
            place = place.setdefault(step, {})
    return whole


def _without(document: Any, path: Path) -> Any:
    whole = copy.deepcopy(document)
    place = whole
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return whole


def _same(one: Any, other: Any) -> bool:
    """Equal, order of keys and kinds of numbers included."""
    return repr(one) == repr(other)


def _checked(text: str, wanted: Any, bom: bool) -> bytes:
    try:
        data = ((_BOM if bom else "") + text).encode("utf-8")
        good = _same(jsonc.parse(data).value, wanted)
    except UnicodeEncodeError:
        raise ConfigError("it holds text that is not Unicode") from None
    except jsonc.JsoncError as error:
        raise ConfigError(f"the result could not be read again ({error.message})") from error
    if not good:
        raise ConfigError("the layout of the file is too unusual for a safe change; edit it by hand")
    return data


# --- where things stand ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Member:
    """One member of an object, as offsets. `comma` is where its comma is, -1 without one."""

    key: str
    start: int
    value: _Value
    comma: int = -1

    @property
    def end(self) -> int:
        return self.comma + 1 if self.comma >= 0 else self.value.end


@dataclass(slots=True)
class _Value:
    """One value: text[start:end]. `members` is None for what is no object."""

    start: int
    end: int = 0
    members: list[_Member] | None = None

    def member(self, key: str) -> _Member | None:
        return next((one for one in self.members or () if one.key == key), None)


def _scan(text: str) -> _Value:
    """The tree of a text that `jsonc.parse` has accepted."""
    return _Scanner(text).value(_skip(text, 0))


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text

    def value(self, at: int) -> _Value:
        first = self.text[at]
        if first == "{":
            return self._object(at)
        if first == "[":
            return self._array(at)
        found = (_STRING if first == '"' else _SCALAR).match(self.text, at)
        assert found is not None
        return _Value(at, found.end())

    def _object(self, start: int) -> _Value:
        members: list[_Member] = []
        at = _skip(self.text, start + 1)
        while self.text[at] != "}":
            key = _STRING.match(self.text, at)
            assert key is not None
            colon = _skip(self.text, key.end())
            member = _Member(json.loads(key.group()), at, self.value(_skip(self.text, colon + 1)))
            at = _skip(self.text, member.value.end)
            if self.text[at] == ",":
                member.comma = at
                at = _skip(self.text, at + 1)
            members.append(member)
        return _Value(start, at + 1, members)

    def _array(self, start: int) -> _Value:
        at = _skip(self.text, start + 1)
        while self.text[at] != "]":
            at = _skip(self.text, self.value(at).end)
            if self.text[at] == ",":
                at = _skip(self.text, at + 1)
        return _Value(start, at + 1)


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_end(text: str, at: int) -> int:
    """Where the line before that of this offset ends, its line break not included."""
    start = _line_start(text, at)
    return start - (2 if text[max(start - 2, 0) : start] == "\r\n" else 1)


def _begins_line_after(text: str, floor: int, at: int) -> bool:
    """The line break before this offset is behind `floor`, and ends no comment."""
    end = _line_end(text, at)
    last = list(_COMMENT.finditer(text, floor, at))[-1:]
    return end >= floor and not (last and last[0].group().startswith("//") and last[0].end() >= end)


def _indent_at(text: str, at: int) -> str:
    """The blanks that the line of this offset begins with."""
    start = _line_start(text, at)
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return not text[_line_start(text, at) : at].strip(" \t")


def _objects(value: _Value) -> Iterator[_Value]:
    if value.members is not None:
        yield value
        for member in value.members:
            yield from _objects(member.value)


# --- style -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Style:
    """How the document is written: line ends, what one level is indented by, whether blanks follow `:` and `,`."""

    newline: str = "\n"
    unit: str = "  "
    compact: bool = False

    @staticmethod
    def of(text: str) -> _Style:
        newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
        if not text.strip():
            return _Style(newline)
        root = _scan(text)
        unit, compact = "  ", False
        for one in _objects(root):
            outer = _indent_at(text, one.start)
            for member in one.members or ():
                compact = compact or text[member.value.start - 1] == ":"
                inner = _indent_at(text, member.start)
                if _begins_line(text, member.start) and inner.startswith(outer) and inner != outer:
                    return _Style(newline, inner[len(outer) :], compact)
        return _Style(newline, unit, compact)

    def render(self, value: Any, indent: str) -> str:
        """The value over several lines, of which all but the first begin with `indent`."""
        if isinstance(value, dict) and value:
            inner = indent + self.unit
            members = [f"{inner}{_plain(key)}: {self.render(item, inner)}" for key, item in value.items()]
            return "{" + self.newline + f",{self.newline}".join(members) + self.newline + indent + "}"
        if isinstance(value, list) and value:
            line = self.render_line(value)
            if len(line) <= WIDTH and not any(isinstance(item, (dict, list)) for item in value):
                return line
            inner = indent + self.unit
            items = [inner + self.render(item, inner) for item in value]
            return "[" + self.newline + f",{self.newline}".join(items) + self.newline + indent + "]"
        return _plain(value)

    def render_line(self, value: Any) -> str:
        """The value on one line."""
        if isinstance(value, dict) and value and not self.compact:
            return "{ " + ", ".join(f"{_plain(key)}: {self.render_line(item)}" for key, item in value.items()) + " }"
        if isinstance(value, list) and not self.compact:
            return "[" + ", ".join(map(self.render_line, value)) + "]"
        return _plain(value)


def _plain(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"it is not JSON ({error})") from None


# --- changes ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Edits:
    """Replacements of parts of one text, none of which overlap; `text` makes them all."""

    source: str
    parts: list[tuple[int, int, str]] = field(default_factory=list)

    def put(self, start: int, end: int, new: str) -> None:
        self.parts.append((start, end, new))

    def text(self) -> str:
        made, at = [], 0
        for start, end, new in sorted(self.parts):
            made += [self.source[at:start], new]
            at = end
        return "".join([*made, self.source[at:]])


def _set(text: str, root: _Value, path: Path, value: Any, style: _Style) -> str:
    holder = root
    for index, step in enumerate(path):
        member = holder.member(step)
        if member is None:
            for outer in reversed(path[index + 1 :]):
                value = {outer: value}
            return _insert(text, holder, step, value, style)
        if index == len(path) - 1:
            return _replace(text, member, value, style)
        holder = member.value
    raise AssertionError("a path has at least one step")


def _replace(text: str, member: _Member, value: Any, style: _Style) -> str:
    old = member.value
    edits = _Edits(text)
    line = style.render_line(value)
    one_line = "\n" not in text[old.start : old.end] and "\r" not in text[old.start : old.end]
    fits = len(line) <= WIDTH or not _begins_line(text, member.start)
    new = line if one_line and old.members != [] and fits else style.render(value, _indent_at(text, member.start))
    edits.put(old.start, old.end, new)
    return edits.text()


def _insert(text: str, holder: _Value, key: str, value: Any, style: _Style) -> str:
    assert holder.members is not None
    edits = _Edits(text)
    if not holder.members:
        _insert_first(edits, holder, key, value, style)
        return edits.text()
    last = holder.members[-1]
    if not _begins_line(text, holder.members[0].start):
        colon, blank = (":", "") if style.compact else (": ", " ")
        new = f"{blank}{_plain(key)}{colon}{style.render_line(value)}"
        if last.comma >= 0:
            edits.put(last.end, last.end, f"{new},")
        else:
            edits.put(last.end, last.end, f",{new}")
        return edits.text()
    # A person begins members on lines of their own here: so does the new one, behind a comment on the last one's line.
    indent = _indent_at(text, last.start if _begins_line(text, last.start) else holder.members[0].start)
    new = f"{style.newline}{indent}{_plain(key)}: {style.render(value, indent)}"
    rest = _SAME_LINE.match(text, last.end)
    assert rest is not None
    if last.comma >= 0:
        edits.put(rest.end(), rest.end(), f"{new},")
    elif rest.group():
        edits.put(last.end, last.end, ",")
        edits.put(rest.end(), rest.end(), new)
    else:
        edits.put(last.end, last.end, f",{new}")
    return edits.text()


def _insert_first(edits: _Edits, holder: _Value, key: str, value: Any, style: _Style) -> None:
    text = edits.source
    inside = text[holder.start + 1 : holder.end - 1]
    outer = _indent_at(text, holder.start)
    indent = outer + style.unit
    member = f"{style.newline}{indent}{_plain(key)}: {style.render(value, indent)}"
    comments = list(_COMMENT.finditer(inside))
    if not comments:
        edits.put(holder.start + 1, holder.end - 1, f"{member}{style.newline}{outer}")
        return
    behind = holder.start + 1 + comments[-1].end()
    close = holder.end - 1
    ends_line = "\n" in text[behind:close] or "\r" in text[behind:close]
    edits.put(behind, behind, member if ends_line else f"{member}{style.newline}{outer}")


def _removed(text: str, root: _Value, path: Path) -> str:
    holder = root
    for step in path[:-1]:
        found = holder.member(step)
        assert found is not None
        holder = found.value
    members: Sequence[_Member] = holder.members or ()
    index = next(index for index, one in enumerate(members) if one.key == path[-1])
    member, before = members[index], members[index - 1] if index else None
    edits = _Edits(text)
    start, end = _extent(text, member, before)
    last = index == len(members) - 1
    if len(members) == 1 and not text[holder.start + 1 : start].strip() and not text[end : holder.end - 1].strip():
        edits.put(holder.start + 1, holder.end - 1, "")
        return edits.text()
    if last and member.comma < 0 and before is not None:
        # Where nobody wrote a comma behind the last member, none may be left over.
        if before.comma >= start:
            start = before.comma
        else:
            edits.put(before.comma, before.comma + 1, "")
    edits.put(start, end, "")
    return edits.text()


def _extent(text: str, member: _Member, before: _Member | None) -> tuple[int, int]:
    """What goes with a member: its lines where it has lines of its own, else what separates it from its neighbours."""
    start, end = member.start, member.end
    rest = _SAME_LINE.match(text, end)
    assert rest is not None
    if _begins_line(text, start):
        newline = re.compile(r"\r\n|\n|\r").match(text, rest.end())
        if newline is not None:
            return _line_start(text, start), newline.end()
        if before is not None and _begins_line_after(text, before.end, start):
            start = _line_end(text, start)  # what follows, on this line, stood behind that one
        return start, end
    blanks = re.compile(r"[ \t]*").match(text, end)
    assert blanks is not None
    follows = text[blanks.end() : blanks.end() + 1]
    if member.comma >= 0 and follows not in ("\r", "\n", "/", "}"):
        return start, blanks.end()  # the next member moves up to where this one stood
    floor = before.end if before is not None else 0
    while start > floor and text[start - 1] in " \t":
        start -= 1
    return start, end
