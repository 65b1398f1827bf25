"""Owns what a tool's own schemas say of a call's arguments and of its result: what is certainly wrong with them.

It must not know agents or connections, nor change what it looks at. Nearly all is right, and seen to be in a fraction
of a microsecond (fast_check); only what is not goes to the thorough check, which is imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mcphub.catalog.definition import Definition
from mcphub.catalog.hygiene import clean
from mcphub.channel import Data
from mcphub.protocol.jsonrpc import EMPTY, Raw

if TYPE_CHECKING:
    from mcphub.gateway.careful_check import CarefulCheck
    from mcphub.gateway.fast_check import Accept

#: Bytes of arguments and of results that are looked at.
MAX_ARGUMENTS = 256 << 10
MAX_RESULT = 64 << 10
#: Tools whose schemas are remembered as read, with what was made of them.
MAX_KNOWN = 1000
#: Characters of a tool's name in a text.
MAX_NAME = 64


class _Result(msgspec.Struct, gc=False):
    isError: Any = False
    structuredContent: Raw = EMPTY


class _Object(msgspec.Struct, gc=False):
    """Any object."""


_result = msgspec.json.Decoder(_Result).decode
_any_object = msgspec.json.Decoder(_Object).decode


class _Check:
    """One schema of a tool. The thorough check is imported and compiled where it is needed first."""

    __slots__ = ("_careful", "_of_arguments", "_schema", "_whole", "fast")

    def __init__(self, schema: bytes, whole: str, fast: Accept | None, of_arguments: bool) -> None:
        self._schema = schema
        self._whole = whole
        self._of_arguments = of_arguments
        self.fast = fast
        self._careful: CarefulCheck | None = None

    def wrong_with(self, data: Data) -> Sequence[str]:
        """A clause for each thing that is certainly wrong with this JSON."""
        if self.fast is not None:
            try:
                self.fast(data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                return ()
        if self._careful is None:
            from mcphub.gateway.careful_check import CarefulCheck

            self._careful = CarefulCheck(self._schema, self._whole, of_arguments=self._of_arguments)
        return self._careful.wrong_with(data)


class _Known(msgspec.Struct, frozen=True):
    """What is remembered of a tool; None = its schema says nothing, or cannot be used. `fast` is the check's own, where
    it has one. Its own definition is kept so that no other one can have its id."""

    tool: Definition
    check: _Check | None
    fast: Accept | None


class Checks:
    """The schemas of all tools, each read at its first call. `unused` is told, once, of one that cannot be used."""

    def __init__(self, unused: Callable[[str], object] = lambda text: None) -> None:
        self._unused = unused
        self._arguments: dict[int, _Known] = {}
        self._results: dict[int, _Known] = {}

    def refusal(self, tool: Definition, arguments: Data) -> str:
        """What a model is told where these arguments (a JSON object) are certainly wrong, "" = they may be sent."""
        known = self._arguments.get(id(tool)) or self._known(tool)
        check = known.check
        if check is None or len(arguments) > MAX_ARGUMENTS:
            return ""
        if known.fast is not None:
            try:
                known.fast(arguments)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                return ""
        wrong = check.wrong_with(arguments)
        return _refusal(tool, wrong) if wrong else ""

    def accept(self, tool: Definition) -> Accept | None:
        """What takes arguments that fit, and raises msgspec.DecodeError or RecursionError for what is no object or may
        not fit; None = there is only the thorough check."""
        check = self._known(tool).check
        return _any_object if check is None else check.fast

    def refusal_of_own(self, tool: Definition, arguments: Data, whole: Data) -> str:
        """As `refusal`, where `whole`, which is these arguments with what mcphub adds, was refused: what mcphub adds is
        no fault of the agent's, and what mcphub would add is not missing."""
        known = self._arguments.get(id(tool))
        if known is None or known.check is None:
            return ""
        wrong, with_more = known.check.wrong_with(arguments), known.check.wrong_with(whole)
        wrong = [clause for clause in wrong if clause in with_more] or wrong
        return _refusal(tool, wrong) if wrong else ""

    def unlike(self, tool: Definition, result: Data) -> str:
        """How a result breaks the tool's own outputSchema, "" = it does not, is too large to be looked at, or says
        itself that it is an error."""
        known = self._results.get(id(tool))
        if known is None:
            check = self._check(tool, b'"outputSchema"', "structuredContent", of_arguments=False)
            known = _remember(self._results, tool, check)
        if len(result) > MAX_RESULT:
            return ""
        try:
            fields = _result(result)
        except (msgspec.DecodeError, RecursionError):
            return ""
        if fields.isError is True:
            return ""
        if not fields.structuredContent:
            return "structuredContent is missing"
        if known.check is None:
            return ""
        return "; ".join(known.check.wrong_with(memoryview(fields.structuredContent)))

    def _known(self, tool: Definition) -> _Known:
        """What there is of its inputSchema."""
        known = self._arguments.get(id(tool))
        if known is None:
            check = self._check(tool, b'"inputSchema"', "the arguments", of_arguments=True)
            known = _remember(self._arguments, tool, check)
        return known

    def _check(self, tool: Definition, member: bytes, whole: str, *, of_arguments: bool) -> _Check | None:
        # Once for each tool that is called, and not before the first server is there: a start need not load them.
        from mcphub.gateway.fast_check import fast_check, says_nothing
        from mcphub.gateway.tool_schema import read_schema

        raw = next((value for key, value in tool.members if key == member), b"")
        schema = read_schema(raw, of_arguments=of_arguments)
        if schema is None and raw[:1] == b"{":
            what, shown = member.strip(b'"').decode(), clean(tool.name)[:MAX_NAME]
            self._unused(f"the {what} of the tool {shown} is not used: too large, too deep, or of an unknown dialect")
        if schema is None or says_nothing(schema, of_arguments):
            return None
        return _Check(raw, whole, fast_check(schema), of_arguments)


def _refusal(tool: Definition, wrong: Sequence[str]) -> str:
    shown = clean(tool.name)[:MAX_NAME]
    return f"The arguments do not fit the schema of {shown}: {'; '.join(wrong)}. Nothing was sent; correct them."


def _remember(known: dict[int, _Known], tool: Definition, check: _Check | None) -> _Known:
    if len(known) >= MAX_KNOWN:
        known.clear()  # most are of lists that are no more
    found = known[id(tool)] = _Known(tool, check, check.fast if check is not None else None)
    return found
