"""Owns the verb env: the variables that entries may refer to, kept in a file that only its owner can read.

It must not print a value, in whatever case.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.cli.change import Here

DESCRIPTION = """\
Set, take away or list the variables of the hub's environment file, which ${NAME} in an entry refers to. Values are
never printed. `env set NAME` asks for the value on the terminal, or reads it from stdin up to its end (one line break
there is dropped); `env set NAME=VALUE` is for what is no secret, since others on this machine can see it. `env path`
shows where programs are looked for, and `env path --refresh` asks your login shell again, as the daemon does at its
first start and then once a day: after you installed a version manager, say."""

ACTIONS = {
    "set": "give the variable NAME a value, or NAME=VALUE",
    "unset": "take the variable NAME out of the file",
    "list": "the names of all variables",
    "path": "where programs are looked for; --refresh asks the login shell",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    from mcphub.cli.subverb import words_first
    from mcphub.cli.usage import add_actions

    add_actions(parser, ACTIONS)
    parser.add_argument("names", nargs="*", metavar="NAME[=VALUE]", help="the variables; none for list and path")
    parser.add_argument(
        "--from-env", action="store_true", help="with set NAME: take the value that your environment has for it"
    )
    parser.add_argument("--refresh", action="store_true", help="with path: ask the login shell now")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(reorder=lambda words: words_first(words, ()))


def run(args: argparse.Namespace) -> int:
    from mcphub.cli.change import Here
    from mcphub.cli.usage import UsageError

    if bool(args.names) == (args.action in ("list", "path")):
        raise UsageError(f"cannot run env {args.action}: it takes {'no name' if args.names else 'a name'}")
    if args.from_env and args.action != "set":
        raise UsageError(f"cannot run env {args.action}: --from-env is for set")
    if args.refresh and args.action != "path":
        raise UsageError(f"cannot run env {args.action}: --refresh is for path")
    here = Here.now()
    path = here.places.environment
    match args.action:
        case "list":
            return _list(path, args.json)
        case "path":
            return _path(here, args.refresh, args.json)
        case "set":
            done = _set(path, args.names, args.from_env)
        case _:
            done = _unset(path, args.names)
    here.tell()
    _report(args.action, done, path, args.json)
    return 0


def _set(path: str, items: list[str], from_env: bool) -> list[str]:
    from mcphub.cli.usage import UsageError
    from mcphub.config.environment_edit import name_fault, set_variable
    from mcphub.errors import ConfigError
    from mcphub.store import atomicfile

    asked = [item for item in items if "=" not in item]
    if from_env and not asked:
        raise UsageError("cannot set from your environment what has a value: write --from-env NAME")
    if len(asked) > 1 and not from_env:
        raise UsageError("cannot set several variables from one input; give one name at a time, or --from-env")
    for item in items:
        name = item.partition("=")[0]
        if fault := name_fault(name):
            raise UsageError(f"cannot set {name[:80]!a}: {fault}")
    atomicfile.check(path)  # whoever types a secret in should not have done so for nothing
    values: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            if from_env and name not in os.environ:
                raise ConfigError(f"cannot set {name}: your environment has no variable {name}")
            value = os.environ[name] if from_env else _ask(name)
        values[name] = value

    def change(data: bytes | None) -> bytes:
        for name, value in values.items():
            try:
                data = set_variable(data, name, value)
            except ConfigError as error:
                raise ConfigError(f"cannot set {name} in {path}: {error}") from None
        return data or b""

    atomicfile.update(path, change, private=True)
    return list(values)


def _ask(name: str) -> str:
    """The value, from the terminal without an echo, else from stdin whole."""
    from mcphub.errors import ConfigError

    if sys.stdin is None:
        raise ConfigError(f"cannot set {name}: there is no input to read its value from")
    if sys.stdin.isatty():
        import getpass

        try:
            return getpass.getpass(f"{name}: ")
        except EOFError:
            raise ConfigError(f"cannot set {name}: no value was given") from None
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"cannot set {name}: its value is not UTF-8 text") from None


def _unset(path: str, names: list[str]) -> list[str]:
    from mcphub.config.environment_edit import unset_variable
    from mcphub.errors import ConfigError
    from mcphub.store import atomicfile

    before = _names(path)
    missing = [name for name in names if name not in before]
    if missing:
        shown = ", ".join(f"{name[:80]!a}" for name in missing)
        raise ConfigError(f"cannot unset {shown}: {path} has no such variable")

    def change(data: bytes | None) -> bytes:
        for name in names:
            data = unset_variable(data, name)
        return data or b""

    atomicfile.update(path, change, private=True)
    return names


def _names(path: str) -> list[str]:
    """The names that the file sets; what is wrong with it is complained about. Raises ConfigError."""
    from mcphub.cli import output
    from mcphub.config.environment import parse_environment
    from mcphub.config.readfile import Reader

    values, problems = parse_environment(Reader().read(path) or b"", path)
    for problem in problems:
        output.complain(problem)
    return sorted(values)


def _list(path: str, as_json: bool) -> int:
    from mcphub.cli import output

    names = _names(path)
    if as_json:
        print(output.json_text({"path": path, "names": names}))
    elif names:
        print("\n".join(names))
    else:
        output.complain(f"{path} sets no variable")
    return 0


def _path(here: Here, refresh: bool, as_json: bool) -> int:
    """Show where programs are looked for; 1 where the login shell was asked and did not say."""
    from mcphub.cli import output
    from mcphub.store.login_path import login_path_file

    file = login_path_file(here.places.login_path)
    if refresh:
        from mcphub.config.login_refresh import refreshed

        known = file.change(lambda before: refreshed(before, os.environ))
        here.tell()
        problems: tuple[str, ...] = (known.error,) if known.error else ()
    else:
        known, problems = file.load()
    path = here.load().environment.get("PATH", "")
    for problem in problems:
        output.complain(problem)
    found = path.split(":")
    usable = [one for one in found if os.path.isabs(one)]
    if as_json:
        path = ":".join(usable)
        print(output.json_text({"path": path, "login_path": known.path, "shell": known.shell, "asked": known.asked}))
    else:
        print("\n".join(map(output.line, usable)))
        for one in found:
            if one not in usable:
                output.complain(f"{one!a} of PATH is left out: programs are looked for in absolute directories alone")
        if not known.path and not problems:
            output.complain("the login shell was not asked yet; to ask it now: mcphub env path --refresh")
    return 1 if refresh and problems else 0


def _report(action: str, names: list[str], path: str, as_json: bool) -> None:
    from mcphub.cli import output

    if as_json:
        print(output.json_text({"action": action, "names": names, "path": path}))
        return
    print(f"{', '.join(names)}: {'set' if action == 'set' else 'taken out'} in {output.line(path)}")
