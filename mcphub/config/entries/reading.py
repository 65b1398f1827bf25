"""Owns one entry while it is read: what is said about it, and the variables in its fields, replaced or missing.

It must not know which fields there are, nor what they are for.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping

from mcphub.config.expand import Variables, expand
from mcphub.config.layer import Entry, owner
from mcphub.config.told import told
from mcphub.spec import Scope

from .context import Context
from .fields import Fault

#: Keys whose texts say what runs, or where.
_TOLD = frozenset(["command", "args", "cwd", "url", "envFile", "tls", "oauth"])
#: What is a secret by its key, whatever variable it stands in.
_UNTOLD = frozenset(["clientSecret", "privateKey"])
_FOREIGN = {Scope.PROJECT: "a project file", Scope.PLUGIN: "a plugin", Scope.WEBAPP: "a catalogue"}


class Reading:
    """One entry, what it is read against, and what was noted so far.

    `workspace` is the directory whose agents may use it, "" = all. `foreign`: not written by the person or the
    person's own organisation. While `enabled` is false nothing is expanded.
    """

    def __init__(self, entry: Entry, directory: str, context: Context) -> None:
        self.entry = entry
        self.raw = entry.raw
        self.directory = directory
        self.context = context
        self.project = entry.origin.scope is Scope.PROJECT
        self.foreign = entry.origin.scope in _FOREIGN
        self.workspace = owner(entry.origin.scope, directory)
        self.env: Mapping[str, str] = context.env
        if entry.variables:
            self.env = ChainMap(dict(entry.variables), dict(context.env))
        written_off = entry.raw.get("enabled") is False or entry.raw.get("disabled") is True
        self.enabled = not (written_off or entry.name in context.switched_off or context.switches_lost)
        self._notes: dict[str, None] = {}
        #: What texts of a project's entry became, by key, as a person may see it: who is asked to approve them must.
        self.told: dict[str, str] = {}

    @property
    def whose(self) -> str:
        """Who wrote the entry, where it is foreign, as a message names it."""
        return _FOREIGN[self.entry.origin.scope]

    def note(self, text: str, *path: str | int) -> None:
        """Warn about the value at `path`; the same warning counts once."""
        self._notes[f"{self.entry.place(*path)}: {text}"] = None

    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)


class Expansion:
    """Expands the fields of one entry and gathers what cannot be had, so that one message names all of it.

    Variables that `withheld` names are empty in a foreign entry, set or not, and secrets cannot be had there.
    """

    def __init__(self, reading: Reading, withheld: Callable[[str], bool] | None = None) -> None:
        self._reading = reading
        self._closed = withheld is not None and reading.foreign
        self._variables = Variables(
            reading.env,
            reading.workspace,
            withheld if self._closed else None,
            None if self._closed else reading.context.secrets,
        )
        self._missing: dict[str, tuple[str | int, ...]] = {}
        self._secrets: dict[str, tuple[str | int, ...]] = {}

    def expand(self, text: str, *path: str | int) -> str:
        """`text`, the value at `path`, with its variables replaced; not to be used before `refuse_missing` passed."""
        if "$" not in text or not self._reading.enabled:
            return text
        result = expand(text, self._variables)
        for form in result.unsupported:
            # Reported without its place: one form used in ten arguments is one thing to know.
            self._reading.note(f"{ascii(form)[1:-1]} is not a supported form and is passed on as it stands")
        for name in result.withheld:
            self._reading.note(
                f"{name} is a credential by its name, and empty here: {self._reading.whose} may not send yours away; "
                "if you want it, set the server up in your own mcp.json",
                *path,
            )
        for name in result.missing:
            self._missing.setdefault(name, path)
        for name in result.secrets:
            self._secrets.setdefault(name, path)
        if self._reading.project and path[0] in _TOLD and path[-1] not in _UNTOLD:
            key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]
            self._reading.told[key] = self.told(text)
        return result.text

    def told(self, text: str) -> str:
        """`text` as `expand` makes it, without secrets."""
        return told(text, self._variables) if "$" in text else text

    def refuse_missing(self) -> None:
        """Raise the fault of all that could not be expanded, if any; called once every field was expanded."""
        for name, path in self._secrets.items():
            raise Fault(self._no_secret(name), *path)
        if not self._missing:
            return
        first, *others = self._missing
        if first == "workspaceFolder":
            raise Fault("${workspaceFolder} has a value in the entries of a project only", *self._missing[first])
        places = [f"{name} ({self._reading.entry.place(*self._missing[name])})" for name in others]
        also = f"; also missing: {', '.join(places)}" if places else ""
        where = f"set it in {self._reading.context.environment_file}, or write a default: ${{{first}:-...}}"
        cause = f"missing variable {first}{also}; {where}"
        raise Fault(cause, *self._missing[first], missing=tuple(self._missing))

    def _no_secret(self, name: str) -> str:
        form = ascii(f"${{secret:{name[:40]}}}")[1:-1]
        if self._closed:
            return (
                f"{form}: {self._reading.whose} may not send your secrets away; if you want it, set the server up in "
                "your own mcp.json"
            )
        context = self._reading.context
        if context.secrets is None:
            return f"{form}: secrets are known to the daemon alone"
        if context.no_secrets is not None and (why := context.no_secrets()):
            return f"{form}: {why}"
        return f"{form}: no secret has this name; keep one: mcphub secret set {ascii(name[:40])[1:-1]}"
