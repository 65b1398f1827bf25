"""Owns the way from argv to a verb, and what every verb's end looks like: exit status, broken pipe, Ctrl-C.

It must not import what only one verb needs: start-up time is the whole cost of most commands. `connect` gets past
even argparse.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

#: As a shell reports a command that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
BROKEN_PIPE = 141
USAGE = 2
NO_DAEMON = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name; default: this process's) and return its exit status."""
    if argv is None:
        _open_standard_descriptors()
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = arguments[0] if arguments else ""
    if verb == "connect" and "--print-url" not in arguments:
        from mcphub.sessions import bridge

        return bridge.main(arguments[1:])
    hasty = argv is None and verb != "serve"
    if hasty:
        gc.disable()  # together with freeze: 2.5 ms of the 24 that `mcphub status` takes
    try:
        if hasty and verb != "connect":  # which forks: it has no threads
            from mcphub.cli import interrupt

            interrupt.watch()
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    finally:
        if hasty:
            from mcphub.cli import interrupt

            interrupt.over()
            gc.freeze()


def _open_standard_descriptors() -> None:
    """Descriptors 0 to 2 that whoever started this closed lead to /dev/null from now on: the next file or socket to be
    opened would else be taken for stdin or stdout."""
    import os

    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest one that is free
            os.set_inheritable(descriptor, True)


def build_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of one verb of COMMANDS; imports that verb's module only."""
    import argparse
    from importlib import import_module

    from mcphub.cli.commands import COMMANDS, EXIT_STATUS

    module = import_module(f"mcphub.cli.commands.{COMMANDS[verb][0]}")
    parser = argparse.ArgumentParser(
        prog=f"mcphub {verb}",
        description=module.DESCRIPTION,
        epilog=EXIT_STATUS,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=_columns()),
        allow_abbrev=False,
    )
    module.arguments(parser)
    parser.set_defaults(run=module.run)
    return parser


def _run(arguments: list[str]) -> int:
    from mcphub.cli.commands import COMMANDS
    from mcphub.cli.output import complain
    from mcphub.cli.usage import UsageError, tell
    from mcphub.errors import ControlError, McphubError

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by whoever started this
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    verb = arguments[0] if arguments else "--help"
    try:
        status = _dispatch(verb, arguments[1:], COMMANDS)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UsageError as error:
        tell(verb, error)
        return USAGE
    except McphubError as error:
        complain(str(error))
        return NO_DAEMON if isinstance(error, ControlError) and error.status == 0 else 1
    except BrokenPipeError:
        raise
    except OSError as error:
        complain(f"cannot finish {verb}: {error}")
        _forget_stdout()
        return 1


def _dispatch(verb: str, arguments: list[str], commands: dict[str, tuple[str, str]]) -> int:
    from mcphub.cli.output import json_text
    from mcphub.cli.usage import UsageError, lacks_action, tell_actions
    from mcphub.errors import McphubError

    if verb in ("-h", "--help", "help"):
        print(_overview(commands), end="")
        return 0
    if verb in ("-V", "--version"):
        from mcphub import __version__

        print(f"mcphub {__version__}")
        return 0
    if verb not in commands:
        return _unknown(verb, list(commands))
    try:
        parser = build_parser(verb)
        reorder = parser.get_default("reorder")  # how a verb lets people write its options behind its words
        words = arguments if reorder is None else reorder(arguments)
        actions = parser.get_default("actions") or {}
        if lacks_action(words, actions):
            tell_actions(verb, actions)
            return USAGE
        args = parser.parse_args(words)
    except SystemExit as end:  # help was asked for, or the usage is wrong
        return end.code if isinstance(end.code, int) else USAGE
    _warn_of_runtime_dir(verb)
    try:
        status: int = args.run(args)
    except UsageError:
        raise
    except McphubError as error:
        if getattr(args, "json", False):  # whoever reads stdout finds the reason there, too
            print(json_text({"error": {"message": str(error)}}, compact=_streams(args)))
        raise
    return status


def _streams(args: argparse.Namespace) -> bool:
    """Whether its JSON is one document a line."""
    return bool(getattr(args, "watch", False) or getattr(args, "follow", False))


def _warn_of_runtime_dir(verb: str) -> None:
    """Say that a variable does not count which somebody set; the daemon has its log for that."""
    import os

    given = os.environ.get("XDG_RUNTIME_DIR", "/")
    if verb != "serve" and given and not given.startswith("/"):
        from mcphub.cli.output import complain
        from mcphub.config.runtime_dir import unused

        complain(unused())


def _columns() -> int:
    """Columns for help; argparse by itself would import shutil, and with it the compression libraries, to know."""
    import os

    try:
        return min(os.get_terminal_size(1).columns, 120) - 2
    except OSError:
        return 100


def _overview(commands: dict[str, tuple[str, str]]) -> str:
    verbs = "".join(f"  {verb:<11}{help_}\n" for verb, (_, help_) in commands.items())
    return (
        "usage: mcphub VERB [options]\n\n"
        "One daemon owns every MCP server connection and serves one merged toolset to any number of agents.\n\n"
        f"verbs:\n{verbs}\n"
        "`mcphub VERB --help` says more about one; `mcphub --version` names this version.\n"
    )


def _unknown(verb: str, verbs: list[str]) -> int:
    import difflib

    from mcphub.cli.output import complain

    near = difflib.get_close_matches(verb, verbs, 1)
    hint = f"did you mean `mcphub {near[0]}`?" if near else "`mcphub --help` lists the verbs"
    complain(f"there is no verb {verb!r}; {hint}")
    return USAGE


def _forget_stdout() -> None:
    """Keep the interpreter from flushing into the broken pipe once more at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
