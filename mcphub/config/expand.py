"""Owns the replacement of `${...}` in configuration text, one pass, never by a shell.

It must not know which field the text belongs to, nor where the environment came from.

Grammar (case C021), read from left to right:

    ${NAME}            the variable's value; set but empty gives ""; unset without default is *missing*
    ${NAME:-text}      the value, or `text` when the variable is unset or empty; `text` is everything up to the first
                       `}`, taken as it stands (colons and slashes are fine, nothing in it is expanded)
    ${workspaceFolder} the directory of the project that the entry is for; missing where there is none
    ${secret:NAME}     what the person keeps under this name; missing where nothing is kept

    NAME = [A-Za-z_][A-Za-z0-9_]*

Any other `$` form passes through untouched and is reported as unsupported, never as missing: `$NAME`, `$${NAME}`,
`${}`, `${NAME%.*}` and other shell operators, `${NAME` without its end, and `${NAME:-...${...}}` (a default inside a
default), which is kept up to its balancing brace. A `$` before anything else is plain text. A replacement is never
expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

WORKSPACE_FOLDER = "workspaceFolder"

# The look-behind starts a run of dollars once, so that a long run costs one pass.
_DOLLAR = re.compile(r"(?<!\$)\$+(?:\{|[A-Za-z_][A-Za-z0-9_]*)")
_REFERENCE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_SECRET = re.compile(r"secret:(?P<name>.*)", re.DOTALL)
_ALONE = re.compile(r"([^$]*)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}$]*))?\}([^$]*)")
_HEAD = re.compile(r"\$+\{[A-Za-z0-9_]*")
_BRACE = re.compile(r"\$\{|\}")


class Variables(msgspec.Struct, frozen=True):
    """What a text may refer to. `workspace` is "" where there is no project; values never show.

    Variables that `withheld` names are empty, set or not. `secret` finds a secret by its name, None = there are none.
    """

    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    workspace: str = ""
    withheld: Callable[[str], bool] | None = None
    secret: Callable[[str], str | None] | None = None

    def __repr__(self) -> str:
        return f"Variables(workspace={self.workspace!r})"

    def get(self, name: str) -> str | None:
        """The value of `name`, None when it is unset."""
        if name == WORKSPACE_FOLDER:
            return self.workspace or None
        return "" if self.withholds(name) else self.env.get(name)

    def withholds(self, name: str) -> bool:
        return self.withheld is not None and self.withheld(name)


class Expanded(msgspec.Struct, frozen=True):
    """The text after replacement, and the names that it needs and cannot have.

    `text` must not be used while `missing` or `secrets` hold anything; `secrets` are those not found. `unsupported` are
    the forms kept as they stood, `withheld` the variables that were empty because they must not be used here.
    """

    text: str
    missing: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = self.missing, self.secrets, self.unsupported, self.withheld
        return "Expanded(missing={!r}, secrets={!r}, unsupported={!r}, withheld={!r})".format(*names)


def expand(text: str, variables: Variables) -> Expanded:
    """Replace every reference in `text`; shapes and limits are those of the grammar above. Never raises."""
    if (alone := _ALONE.fullmatch(text)) is not None:
        return _one(alone, variables)
    parts: list[str] = []
    missing: list[str] = []
    secrets: list[str] = []
    unsupported: list[str] = []
    withheld: list[str] = []
    at = 0
    while (dollar := _DOLLAR.search(text, at)) is not None:
        parts.append(text[at : dollar.start()])
        if not dollar.group().endswith("{"):
            at = dollar.end()
            parts.append(dollar.group())
            unsupported.append(dollar.group())
            continue
        end = _balanced(text, dollar.end())
        if end < 0:
            # No `}` follows: nothing after this point can be a reference either.
            parts.append(text[dollar.start() :])
            unsupported.append(_clip(text[dollar.start() :]))
            at = len(text)
            break
        whole = text[dollar.start() : end]
        body = text[dollar.end() : end - 1]
        at = end
        reference = _REFERENCE.fullmatch(body)
        if dollar.group() == "${" and body.startswith("secret:") and (secret := _SECRET.fullmatch(body)):
            kept = variables.secret(secret["name"]) if variables.secret is not None else None
            if kept is None:
                secrets.append(secret["name"])
            else:
                parts.append(kept)
        elif reference is None or "${" in body or dollar.group() != "${":
            parts.append(whole)
            unsupported.append(_clip(whole))
        else:
            value = variables.get(reference["name"])
            if variables.withholds(reference["name"]):
                withheld.append(reference["name"])
            if reference["default"] is not None and not value:
                value = reference["default"]
            if value is None:
                missing.append(reference["name"])
            else:
                parts.append(value)
    parts.append(text[at:])
    return Expanded("".join(parts), _once(missing), _once(secrets), _once(unsupported), _once(withheld))


def _one(found: re.Match[str], variables: Variables) -> Expanded:
    """As `expand`, of a text with one plain reference, as most have it."""
    before, name, default, behind = found.groups()
    value = variables.get(name)
    withheld = (name,) if variables.withholds(name) else ()
    if default is not None and not value:
        value = default
    if value is None:
        return Expanded(before + behind, missing=(name,), withheld=withheld)
    return Expanded(f"{before}{value}{behind}", withheld=withheld)


def secret_name_fault(name: str) -> str:
    """Why no secret can have this name, "" = it can."""
    if re.fullmatch(r"[A-Za-z0-9_./-]{1,128}", name):
        return ""
    return "a secret's name has 1 to 128 letters, digits and any of _ . / -"


def only_references(text: str) -> bool:
    """`text` consists of supported references without defaults: it can be shown, since it says no value itself."""
    return re.fullmatch(r"(?:\$\{(?:[A-Za-z_][A-Za-z0-9_]*|secret:[A-Za-z0-9_./-]+)\})+", text) is not None


def looked_up(text: str, withheld: Callable[[str], bool] | None = None) -> tuple[str, ...]:
    """The variables that replacing the references in `text` asks the environment for, and the secrets, as
    `secret:NAME`, in their order. It is expanded for this, so that the answer is the grammar's own: no form that stays
    as it is, no `workspaceFolder`, nothing that is withheld."""
    if "$" not in text:
        return ()
    names: list[str] = []
    expand(text, Variables(_Asked(names), withheld=withheld, secret=lambda name: names.append(f"secret:{name}")))
    return _once(names)


class _Asked(dict[str, str]):
    """An empty environment that notes what it is asked for."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self._names.append(name)
        return default


def _balanced(text: str, start: int) -> int:
    """The offset behind the `}` that ends what began before `start`; -1 when none does."""
    first = text.find("}", start)
    if first < 0 or text.find("${", start, first) < 0:
        return first + 1 if first >= 0 else -1
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace.group() == "${" else -1
        if depth == 0:
            return brace.end()
    # `${A:-${B}` has one end for two starts: it belongs to the outer one, which then is an unsupported form.
    last = text.rfind("}", start)
    return last + 1 if last >= 0 else -1


def _clip(form: str) -> str:
    """The form as it may be reported: a default inside it could be a secret, so it ends behind the name."""
    head = _HEAD.match(form)
    assert head is not None
    return form if form in (head.group(), head.group() + "}") else head.group() + "..."


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names)) if names else ()
