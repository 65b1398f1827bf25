"""Owns the meaning of a configuration file: bytes to a layer of entries, and one entry to a server spec or a problem.

It must not read files, know which scope wins, or judge whether a server may run.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcphub.spec import HttpSpec, InProcessSpec, Off, Origin, Problem, Scope, Secret, ServerSpec, StdioSpec

from . import jsonc, urls
from .environment import blocked_in_project, valid_name
from .expand import Variables, expand, only_references
from .layer import Entry, Layer

SERVERS = "mcpServers"
#: Host files use these names for servers of their own, and some JavaScript programs break on the last three.
RESERVED_NAMES = frozenset(
    ["workspace", "claude-in-chrome", "computer-use", "Claude Preview", "Claude Browser"]
    + ["__proto__", "constructor", "prototype"]
)
#: Milliseconds; the upper end is the longest timer that other hosts can set, so a file means the same everywhere.
MIN_MILLISECONDS = 1000
MAX_MILLISECONDS = 2**31 - 1

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REMOTE_KINDS: Final = {
    "http": "HTTP",
    "streamable-http": "HTTP",
    "streamableHttp": "HTTP",
    "sse": "SSE",
    "ws": "WebSocket",
}
_HOST_KINDS = frozenset(["sdk", "sse-ide", "ws-ide"])
_USED = frozenset(
    [
        "type", "command", "args", "env", "cwd", "envFile", "enabled", "disabled", "enabledTools",
        "disabledTools", "startupTimeout", "timeout", "inheritEnv", "stdio", "era", "url",
        "sampling",
    ]
)
_LATER = frozenset(
    [
        "lazy", "idleTimeout", "sharing", "trustAnnotations", "alwaysLoad", "limits", "tools",
        "restart", "source",
    ]
)
_REMOTE_ONLY = frozenset(
    [
        "headers", "headersHelper", "oauth",
    ]
)
_PROGRAM_ONLY = frozenset(
    [
        "args", "env", "cwd", "envFile", "inheritEnv", "stdio",
    ]
)
_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_WINDOWS = re.compile(r"(?i)[a-z]:[\\/].*|cmd|.*\.(?:exe|cmd|bat)")
_OPTION = re.compile(r"(?P<option>-[^=\s]*=)(?P<value>.+)", re.DOTALL)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:(?P<user>[^/?#@]*)@)?(?P<rest>[^?#]*)(?P<query>\?[^#]*)?")
_MASK = "***"


@dataclass(frozen=True, slots=True)
class EnvFile:
    """What the caller read from the file that an entry's `envFile` names. `error` is why it could not be read at
    all."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What an entry is read against. `environment_file` is only named in messages; timeouts are seconds.

    `env_files` holds what `env_file_path` asked for, by absolute path.
    """

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment_file: str = "the hub's environment file"
    env_files: Mapping[str, EnvFile] = field(default_factory=dict, repr=False)
    startup_timeout: float = 30.0
    call_timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of one entry: ready to run, switched off, wrong, or (None) not configured yet."""

    outcome: ServerSpec | Off | Problem | None
    warnings: tuple[str, ...] = ()


class _Bad(Exception):
    """The entry is wrong at `path`, a key path inside it. Never leaves this module."""

    def __init__(self, cause: str, *path: str | int) -> None:
        super().__init__(cause)
        self.cause = cause
        self.path = path


def parse_file(data: bytes, *, scope: Scope, path: str, directory: str) -> Layer:
    """One file as a layer. Never raises: a file that cannot be used is a layer with one problem of name "".

    The shape is `{"mcpServers": {NAME: {...}}}`; any other top-level key is a warning, VS Code's `servers` a problem.
    An entry that is no object, or has a name outside `[A-Za-z0-9_-]{1,64}`, is a problem of that entry alone.
    """
    try:
        document = jsonc.parse(data)
    except jsonc.JsoncError as error:
        place = f"{path}:{error.line}:{error.column}" if error.line else path
        return file_problem(scope, path, directory, f"cannot use {place}: {error.message}", error.line)
    top = document.value
    if not isinstance(top, dict):
        message = f"cannot use {path}:{document.line()}: expected an object at the top, found {_kind(top)}"
        return file_problem(scope, path, directory, message, document.line())

    problems: list[Problem] = []
    warnings: list[str] = []
    for key, value in top.items():
        line = document.line((key,))
        place = f"{path}:{line} {shown_name(key)}"
        if key == "servers":
            cause = f"this is VS Code's key; rename it to {SERVERS!r} and the servers below it are read"
            problems.append(Problem("", Origin(scope, path, key, line), f"cannot use {place}: {cause}"))
        elif key not in (SERVERS, "$schema"):
            entry_like = isinstance(value, dict) and ("command" in value or "url" in value)
            hint = f"; a server goes below {SERVERS!r}" if entry_like else ""
            warnings.append(f"{place}: this key is not used{hint}")

    servers = top.get(SERVERS, {})
    if not isinstance(servers, dict):
        line = document.line((SERVERS,))
        message = f"cannot use {path}:{line} {SERVERS}: expected an object, found {_kind(servers)}"
        problems.append(Problem("", Origin(scope, path, SERVERS, line), message))
        servers = {}
    entries: list[Entry] = []
    for name, raw in servers.items():
        shown = shown_name(name)
        lines = document.lines.below((SERVERS, name))
        origin = Origin(scope, path, f"{SERVERS}.{shown}", lines.number)
        if cause := _bad_name(name):
            problems.append(Problem(shown, origin, f"cannot use server {shown}: {origin}: {cause}"))
        elif not isinstance(raw, dict):
            cause = f"expected an object, found {_kind(raw)}"
            problems.append(Problem(shown, origin, f"cannot use server {shown}: {origin}: {cause}"))
        else:
            entries.append(Entry(name, raw, origin, lines))
    warnings += _twins(path, document, servers)
    return Layer(scope, path, directory, tuple(entries), tuple(problems), tuple(warnings))


def file_problem(scope: Scope, path: str, directory: str, message: str, line: int = 0) -> Layer:
    """The layer of a file that gives nothing, and why."""
    return Layer(scope, path, directory, problems=(Problem("", Origin(scope, path, "", line), message),))


def shown_name(name: str) -> str:
    """`name` as it may be printed: itself when it is a good name, else quoted, escaped to ASCII and cut short."""
    if _NAME.fullmatch(name):
        return name
    return json.dumps(name if len(name) <= 48 else name[:48] + "...")


def parse_entry(entry: Entry, directory: str, context: Context) -> Parsed:
    """One entry, expanded and checked. Never raises; the first thing that is wrong makes the problem.

    `directory` is the layer's: relative paths of a project file start there and its servers run there. An entry that
    is switched off is checked but not expanded, so a variable that is missing does not matter.
    """
    warnings = _Notes(entry)
    try:
        return Parsed(_outcome(entry, directory, context, warnings), warnings.once())
    except _Bad as bad:
        place = _place(entry, bad.path)
        message = f"cannot use server {entry.name}: {place}: {bad.cause}"
        return Parsed(Problem(entry.name, entry.origin, message), warnings.once())


def env_file_path(entry: Entry, directory: str, context: Context) -> str | None:
    """The absolute path of the file that `envFile` names, for the caller to read; None when there is none to read."""
    text = entry.raw.get("envFile")
    if not isinstance(text, str) or _off(entry.raw):
        return None
    try:
        return _env_file_path(entry, text, directory, context, _Notes(entry))
    except _Bad:
        # parse_entry meets the same fault and reports it.
        return None


class _Notes:
    """The warnings of one entry, each said once."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._texts: dict[str, None] = {}

    def add(self, text: str, *path: str | int) -> None:
        self._texts[f"{_place(self._entry, path)}: {text}"] = None

    def once(self) -> tuple[str, ...]:
        return tuple(self._texts)


def _outcome(entry: Entry, directory: str, context: Context, notes: _Notes) -> ServerSpec | Off | Problem | None:
    raw = entry.raw
    if entry.origin.scope is Scope.EMBEDDED:
        return ServerSpec(entry.name, entry.origin, InProcessSpec(str(raw["inProcess"])))
    enabled = _enabled(raw, notes)
    kind = _transport_kind(raw)
    if kind is None:
        notes.add("url is empty, so this server is not configured yet", "url")
        return None
    if kind == "HTTP":
        return _http(entry, directory, context, notes, enabled)
    if kind != "stdio":
        message = f"cannot run remote server {entry.name}: {kind} servers are not supported by this version"
        return Problem(entry.name, entry.origin, f"{message} ({entry.origin})")

    for key in raw:
        if key in _LATER:
            notes.add("not used yet", key)
        elif key in _REMOTE_ONLY:
            notes.add("not used by a server that is a program", key)
        elif key not in _USED:
            notes.add("unknown key, not used", key)
    project = entry.origin.scope is Scope.PROJECT
    fields = _Fields(entry, Variables(context.env, directory if project else ""), expanding=enabled, notes=notes)
    command = _command(raw, notes)
    args = _strings(raw, "args")
    for index, arg in enumerate(args):
        if _hidden(arg):
            notes.add("holds an invisible character", "args", index)
    env = _env(raw)
    cwd = _string(raw, "cwd")
    env_file = _string(raw, "envFile")
    shown = (command, *args) if project else (command, *(masked(arg) for arg in args))

    expanded_command = fields.expand(command, "command")
    expanded_args = tuple(Secret(fields.expand(arg, "args", index)) for index, arg in enumerate(args))
    expanded_env = {name: Secret(fields.expand(text, "env", name)) for name, text in env.items()}
    expanded_cwd = fields.expand(cwd, "cwd")
    if project:
        _refuse_blocked(env, "env")
    if enabled and env_file:
        from_file = _from_env_file(entry, env_file, directory, context, notes)
        if project:
            _refuse_blocked(from_file, "envFile")
        expanded_env = from_file | expanded_env
    if (cause := fields.missing(context.environment_file)) is not None:
        raise cause
    if not expanded_command:
        raise _Bad("is empty after its variables were replaced", "command")

    transport = StdioSpec(
        command=expanded_command,
        args=expanded_args,
        env=expanded_env,
        shown=shown,
        cwd=_cwd(expanded_cwd, directory if project else "", enabled),
        inherit_env=_inherit_env(raw),
        stdio=_one_of(raw, "stdio", ("socketpair", "pipe"), "socketpair"),
    )
    return _server(entry, directory, context, transport, enabled)


def _http(entry: Entry, directory: str, context: Context, notes: _Notes, enabled: bool) -> ServerSpec | Off:
    """A server at a URL."""
    raw = entry.raw
    for key in raw:
        if key in _LATER or (key in _REMOTE_ONLY and key != "headers"):
            notes.add("not used yet", key)
        elif key in _PROGRAM_ONLY:
            notes.add("not used by a remote server", key)
        elif key not in _USED and key != "headers":
            notes.add("unknown key, not used", key)
    project = entry.origin.scope is Scope.PROJECT
    # What a repository wrote must not carry a person's credentials to a place of its own choice.
    withheld = urls.is_credential if project else None
    variables = Variables(context.env, directory if project else "", withheld)
    fields = _Fields(entry, variables, expanding=enabled, notes=notes)
    url = _string(raw, "url")
    headers = _headers(raw, notes)

    expanded_url = fields.expand(url, "url")
    expanded = {name: fields.expand(text, "headers", name) for name, text in headers.items()}
    if (cause := fields.missing(context.environment_file)) is not None:
        raise cause
    if enabled:
        if fault := urls.url_fault(expanded_url):
            raise _Bad(fault, "url")
        if host := urls.open_host(expanded_url):
            notes.add(f"plain http to {ascii(host)[1:-1]}: what is sent, credentials too, can be read by others", "url")
        for name, value in expanded.items():
            if value.endswith("\n"):
                expanded[name] = value = value.removesuffix("\n").removesuffix("\r")
                notes.add("the line break at the end of its value is not sent", "headers", name)
            if fault := urls.value_fault(value):
                raise _Bad(fault, "headers", name)
    secrets = {name: Secret(value) for name, value in expanded.items()}
    transport = HttpSpec(Secret(expanded_url), secrets, url if project else masked_url(url))
    return _server(entry, directory, context, transport, enabled)


def _headers(raw: Mapping[str, Any], notes: _Notes) -> dict[str, str]:
    headers = raw.get("headers", {})
    if not isinstance(headers, dict):
        raise _Bad(f"expected an object, found {_kind(headers)}", "headers")
    seen: set[str] = set()
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if fault := urls.header_fault(name):
            raise _Bad(fault, "headers", name)
        if not isinstance(value, str):
            hint = "; put it in quotes" if isinstance(value, (int, float)) else ""
            raise _Bad(f"expected a string, found {_kind(value)}{hint}", "headers", name)
        if name.lower() in seen:
            raise _Bad("stands twice; upper and lower case are the same in a header's name", "headers", name)
        seen.add(name.lower())
        if urls.written_by_us(name):
            notes.add("mcphub sets this header itself, so this value is not used", "headers", name)
        else:
            kept[name] = value
    return kept


def _server(
    entry: Entry, directory: str, context: Context, transport: StdioSpec | HttpSpec, enabled: bool
) -> ServerSpec | Off:
    """The spec around a transport: what an entry of any kind may say."""
    raw = entry.raw
    startup = _milliseconds(raw, "startupTimeout")
    call = _milliseconds(raw, "timeout")
    spec = ServerSpec(
        entry.name,
        entry.origin,
        transport,
        startup_timeout=context.startup_timeout if startup is None else startup,
        call_timeout=context.call_timeout if call is None else call,
        enabled_tools=_strings(raw, "enabledTools") if "enabledTools" in raw else None,
        disabled_tools=_strings(raw, "disabledTools"),
        era=_one_of(raw, "era", ("legacy", "modern"), ""),
        workspace=directory if entry.origin.scope is Scope.PROJECT else "",
        sampling=_bool(raw, "sampling"),
    )
    if enabled:
        return spec
    key = "enabled" if raw.get("enabled") is False else "disabled"
    return Off(spec, "person", f"switched off by {_place(entry, (key,))}")


def _transport_kind(raw: Mapping[str, Any]) -> str | None:
    """`stdio`, or what a remote kind is called, or None when the entry is a blank form.

    A contradiction is an error and never guessed away: the guess would decide whether a program runs here (case C011).
    """
    kind = raw.get("type", "")
    if not isinstance(kind, str):
        raise _Bad(f"expected a string, found {_kind(kind)}", "type")
    url = _string(raw, "url")
    blank = "url" in raw and url == ""
    command = "command" in raw
    if kind in _REMOTE_KINDS:
        if command:
            raise _Bad(f"type {kind!r} is a remote server, which has no command; remove one of the two", "command")
        if "url" not in raw:
            raise _Bad(f"missing; a server of type {kind!r} needs it", "url")
        if blank:
            return None
        schemes = ("ws://", "wss://") if kind == "ws" else ("http://", "https://")
        if not url.lower().startswith((*schemes, "${")):
            raise _Bad(f"expected an address that begins with {' or '.join(schemes)}", "url")
        return _REMOTE_KINDS[kind]
    if kind in _HOST_KINDS:
        raise _Bad(f"type {kind!r} works only inside the host that supplies it", "type")
    if kind not in ("", "stdio"):
        raise _Bad(f"unknown type {ascii(kind[:40])}; use 'stdio', 'http', 'sse' or 'ws'", "type")
    if url and command:
        raise _Bad("both command and url are set, so it is unclear whether a program may run; remove one", "url")
    if url and kind == "stdio":
        raise _Bad("type 'stdio' is a program, which has no url; give command, or set type to 'http'", "url")
    if url:
        raise _Bad("url without type; add \"type\": \"http\" (or 'sse', 'ws')", "type")
    if command:
        return "stdio"
    if blank:
        return None
    raise _Bad("missing; give the program to run, or type and url for a remote server", "command")


def _bool(raw: Mapping[str, Any], key: str) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise _Bad("expected true or false", key)
    return value


def _enabled(raw: Mapping[str, Any], notes: _Notes) -> bool:
    for key in ("enabled", "disabled"):
        if key in raw and not isinstance(raw[key], bool):
            raise _Bad(f"expected true or false, found {_kind(raw[key])}", key)
    if "disabled" in raw:
        # Other hosts write it so; running what somebody switched off would be worse than reading their word for it.
        notes.add('write "enabled": false instead', "disabled")
    return not _off(raw)


def _off(raw: Mapping[str, Any]) -> bool:
    return raw.get("enabled") is False or raw.get("disabled") is True


def _command(raw: Mapping[str, Any], notes: _Notes) -> str:
    command = raw["command"]
    if isinstance(command, list):
        raise _Bad("expected a string, found a list; put what follows the program into args", "command")
    command = _string(raw, "command")
    if not command.strip():
        raise _Bad("is empty; give the program to run", "command")
    if command != command.rstrip():
        raise _Bad("ends in white space, and no program is called so; remove it", "command")
    if command != command.lstrip():
        notes.add("begins with white space, which is part of the program's name", "command")
    elif "/" not in command and "\\" not in command and re.search(r"\s", command):
        notes.add("holds white space and is not split; put what follows the program into args", "command")
    if _hidden(command):
        notes.add("holds an invisible character", "command")
    if _WINDOWS.fullmatch(command):
        notes.add("looks like an entry for Windows; this system may not have that program", "command")
    return command


def _env(raw: Mapping[str, Any]) -> dict[str, str]:
    env = raw.get("env", {})
    if not isinstance(env, dict):
        raise _Bad(f"expected an object, found {_kind(env)}", "env")
    for name, value in env.items():
        if not valid_name(name):
            raise _Bad("no variable can have this name", "env", name)
        if not isinstance(value, str):
            hint = "; put it in quotes" if isinstance(value, (int, float)) else ""
            raise _Bad(f"expected a string, found {_kind(value)}{hint}", "env", name)
        _refuse_nul(value, "env", name)
    return env


def _inherit_env(raw: Mapping[str, Any]) -> bool | tuple[str, ...]:
    value = raw.get("inheritEnv", False)
    if isinstance(value, bool):
        return value
    if not isinstance(value, list):
        raise _Bad(f"expected true, false or a list of names, found {_kind(value)}", "inheritEnv")
    return tuple(sorted(set(_strings(raw, "inheritEnv"))))


def _milliseconds(raw: Mapping[str, Any], key: str) -> float | None:
    """The time at `key` in seconds, None when it is not given (case C017)."""
    if key not in raw:
        return None
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _Bad(f"expected a number of milliseconds, found {_kind(value)}", key)
    if value < MIN_MILLISECONDS:
        hint = f"; for {value:g} seconds write {value * 1000:g}" if 0 < value < MIN_MILLISECONDS else ""
        raise _Bad(f"{value:g} is below {MIN_MILLISECONDS}, and the unit is milliseconds{hint}", key)
    if value > MAX_MILLISECONDS:
        raise _Bad(f"{value:g} is above {MAX_MILLISECONDS} milliseconds", key)
    return value / 1000


def _cwd(text: str, workspace: str, enabled: bool) -> str:
    """The absolute directory; a project's servers start in its workspace, a person's in the home directory ("")."""
    if not text:
        return workspace
    if posixpath.isabs(text):
        return posixpath.normpath(text)
    if not enabled and "$" in text:
        return text
    if text.startswith("~"):
        raise _Bad("~ is not replaced; write ${HOME}", "cwd")
    if not workspace:
        raise _Bad("expected an absolute path, for example ${HOME}/project", "cwd")
    return posixpath.normpath(posixpath.join(workspace, text))


def _env_file_path(entry: Entry, text: str, directory: str, context: Context, notes: _Notes) -> str:
    project = entry.origin.scope is Scope.PROJECT
    fields = _Fields(entry, Variables(context.env, directory if project else ""), expanding=True, notes=notes)
    path = fields.expand(text, "envFile")
    if (cause := fields.missing(context.environment_file)) is not None:
        raise cause
    if path.startswith("~"):
        raise _Bad("~ is not replaced; write ${HOME}", "envFile")
    return posixpath.normpath(posixpath.join(directory, path))


def _from_env_file(entry: Entry, text: str, directory: str, context: Context, notes: _Notes) -> dict[str, Secret]:
    path = _env_file_path(entry, text, directory, context, notes)
    found = context.env_files.get(path, EnvFile(error=f"cannot read {path}: No such file"))
    if found.error:
        raise _Bad(found.error, "envFile")
    for warning in found.warnings:
        notes.add(warning, "envFile")
    return {name: Secret(value) for name, value in found.values.items()}


def _refuse_blocked(names: Iterable[str], key: str) -> None:
    blocked = blocked_in_project(names)
    if not blocked:
        return
    path = (key, blocked[0]) if key == "env" else (key,)
    raise _Bad(
        f"blocked: a project file may not set {', '.join(blocked)}, which can change the code that runs or whom it "
        "trusts; if you want it, set the server up in your own mcp.json",
        *path,
    )


class _Fields:
    """Expands the fields of one entry and gathers what cannot be had, so that one message names all of it."""

    def __init__(self, entry: Entry, variables: Variables, *, expanding: bool, notes: _Notes) -> None:
        self._entry = entry
        self._variables = variables
        self._expanding = expanding
        self._notes = notes
        self._missing: dict[str, tuple[str | int, ...]] = {}
        self._secrets: dict[str, tuple[str | int, ...]] = {}

    def expand(self, text: str, *path: str | int) -> str:
        if not self._expanding:
            return text
        result = expand(text, self._variables)
        for form in result.unsupported:
            # Reported without its place: one form used in ten arguments is one thing to know.
            self._notes.add(f"{ascii(form)[1:-1]} is not a supported form and is passed on as it stands")
        for name in result.withheld:
            self._notes.add(
                f"{name} is a credential by its name, and empty here: a project file may not send yours away; if you "
                "want it, set the server up in your own mcp.json",
                *path,
            )
        self._missing |= {name: path for name in result.missing if name not in self._missing}
        self._secrets |= {name: path for name in result.secrets if name not in self._secrets}
        return result.text

    def missing(self, environment_file: str) -> _Bad | None:
        """The fault to raise once every field was expanded, None when all could be."""
        for name, path in self._secrets.items():
            form = ascii(f"${{secret:{name[:40]}}}")[1:-1]
            return _Bad(f"{form}: secrets are not supported by this version; use a variable", *path)
        if not self._missing:
            return None
        first = next(iter(self._missing))
        if first == "workspaceFolder":
            return _Bad("${workspaceFolder} has a value in project files only", *self._missing[first])
        others = [f"{name} ({_place(self._entry, path)})" for name, path in self._missing.items() if name != first]
        also = f"; also missing: {', '.join(others)}" if others else ""
        cause = f"missing variable {first}{also}; set it in {environment_file}, or write a default: ${{{first}:-...}}"
        return _Bad(cause, *self._missing[first])


def masked(arg: str) -> str:
    """`arg` as a list may print it: by position, the value of `--option=value` and what a URL carries beside its path.

    Text that consists of `${VAR}` is shown, since it holds no value. Names are not judged: every option is treated so.
    """
    option = _OPTION.fullmatch(arg)
    if option is not None:
        return option["option"] + (option["value"] if only_references(option["value"]) else _MASK)
    url = _URL.match(arg)
    if url is None:
        return arg
    user = f"{_MASK}@" if url["user"] else ""
    query = f"?{_MASK}" if url["query"] else ""
    return f"{url['scheme']}{user}{url['rest']}{query}"


def masked_url(url: str) -> str:
    """A server's URL as a list may print it: what stands before `@` and behind `?` is masked, `#` and the rest gone."""
    place, mark, _ = url.partition("#")[0].partition("?")
    scheme, slashes, rest = place.rpartition("://")
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    return f"{scheme}{slashes}{_MASK if user else ''}{at}{host}{slash}{path}{mark}{_MASK if mark else ''}"


def _string(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise _Bad(f"expected a string, found {_kind(value)}", key)
    _refuse_nul(value, key)
    return value


def _strings(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key, [])
    if not isinstance(value, list):
        raise _Bad(f"expected a list of strings, found {_kind(value)}", key)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            hint = "; put it in quotes" if isinstance(item, (int, float)) else ""
            raise _Bad(f"expected a string, found {_kind(item)}{hint}", key, index)
        _refuse_nul(item, key, index)
    return tuple(value)


def _one_of(raw: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str) -> str:
    value = raw.get(key, default)
    if value not in (*allowed, default):
        raise _Bad(f"expected {' or '.join(map(repr, allowed))}", key)
    return str(value)


def _refuse_nul(text: str, *path: str | int) -> None:
    if "\0" in text:
        raise _Bad("cannot hold a NUL character", *path)


def _hidden(text: str) -> bool:
    """`text` holds what an editor does not show: format and control characters, blanks that are no plain space."""
    return any(
        unicodedata.category(letter) in ("Cf", "Cc", "Zs", "Zl", "Zp") and letter not in " \n\t" for letter in text
    )


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "something else")


def _place(entry: Entry, path: tuple[str | int, ...]) -> str:
    """`FILE:LINE mcpServers.NAME.key[0]`; keys that are no plain names are escaped."""
    keys = "".join(f"[{step}]" if isinstance(step, int) else f".{shown_name(step)}" for step in path)
    line = entry.lines.line(path) or entry.origin.line
    return str(Origin(entry.origin.scope, entry.origin.path, entry.origin.key + keys, line))


def _bad_name(name: str) -> str:
    if name in RESERVED_NAMES:
        return "this name is reserved; choose another"
    if not _NAME.fullmatch(name):
        return "a name has 1 to 64 of the characters A-Z a-z 0-9 _ -"
    return ""


def _twins(path: str, document: jsonc.Document, servers: Mapping[str, Any]) -> list[str]:
    """A warning for each name that differs from an earlier one in case alone: some file systems and people fold it."""
    seen: dict[str, str] = {}
    warnings: list[str] = []
    for name in servers:
        if not _NAME.fullmatch(name):
            continue
        first = seen.setdefault(name.lower(), name)
        if first != name:
            line = document.line((SERVERS, name))
            warnings.append(f"{path}:{line} {SERVERS}.{name}: differs from {first!r} in upper and lower case only")
    return warnings
