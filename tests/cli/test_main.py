"""From argv to a verb, and every verb's end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

import mcphub
from mcphub.cli.commands import COMMANDS
from mcphub.cli.main import build_parser, main
from mcphub.config import runtime_dir
from mcphub.sessions import bridge
from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, tool

OVERVIEW = """\
usage: mcphub VERB [options]

One daemon owns every MCP server connection and serves one merged toolset to any number of agents.

verbs:
  serve      run the daemon in the foreground
  connect    attach an agent: MCP on stdin and stdout
  status     what runs, what does not, and why
  why        why a server runs or does not, and what would change it
  tools      list the merged tools
  call       call one tool
  calls      what became of calls that may have changed something
  login      sign in to a server, or to all that need it
  logout     sign out of a server, or of all
  reconnect  close and open servers again
  logs       what a server wrote to stderr
  add        add a server to a file, or to the daemon that runs
  add-json   add a server by its whole entry
  remove     take a server away again
  enable     switch a server on again
  disable    switch a server off
  env        variables that entries refer to; values are never shown
  secret     secrets that entries refer to, kept sealed; values are never shown
  vault      whether tokens and secrets can be had; unlock it, change its key
  approve    let servers run that this directory asks for
  reject     never run a server that this directory asks for
  policy     the rules in force, what they say, what a file of them would do
  config     every file and entry that counts or does not; what is wrong with them
  service    run the daemon as a service of systemd or launchd
  stop       shut the daemon down

`mcphub VERB --help` says more about one; `mcphub --version` names this version.
"""


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_the_verbs_are_listed(place: Place, arguments: tuple[str, ...]) -> None:
    """Whoever does not know what to type is told."""
    assert place.run(*arguments) == (OVERVIEW, "", 0)


def test_the_version_is_named(place: Place) -> None:
    """One line, for scripts too."""
    assert place.run("--version") == place.run("-V") == (f"mcphub {mcphub.__version__}\n", "", 0)


@pytest.mark.parametrize(
    ("verb", "hint"),
    [
        ("statsu", "did you mean `mcphub status`?"),
        ("recconect", "did you mean `mcphub reconnect`?"),
        ("frobnicate", "`mcphub --help` lists the verbs"),
        ("--frobnicate", "`mcphub --help` lists the verbs"),
        ("\x1b[2J", "`mcphub --help` lists the verbs"),
    ],
)
def test_an_unknown_verb_is_wrong_usage(place: Place, verb: str, hint: str) -> None:
    """With the verb that was probably meant."""
    assert place.run(verb) == ("", f"mcphub: there is no verb {verb!r}; {hint}\n", 2)


def test_a_verb_may_sort_its_words(home: Place) -> None:
    """Where people write options behind words, they are found there."""
    said = "cannot remove b: no server is named so here; `mcphub status` lists them"
    assert home.run("add", "a", "--json", "--", "x", "--json")[2] == 0
    out, err, status = home.run("remove", "b", "--json")
    assert (json.loads(out), err, status) == ({"error": {"message": said}}, f"mcphub: {said}\n", 1)


@pytest.mark.parametrize("verb", list(COMMANDS))
def test_every_verb_has_help(place: Place, verb: str) -> None:
    """Exit 0, on stdout, with the usage first."""
    out, err, status = place.run(verb, "--help")
    assert out.startswith(f"usage: mcphub {verb}")
    assert (err, status) == ("", 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--nope"),
        ("status", "a", "b"),
        ("status", "--js"),
        ("reconnect",),
        ("reconnect", "a", "--all"),
        ("approve", "a", "--all"),
        ("approve", "--yes", "a"),
        ("logs",),
        ("logs", "a", "-n", "x"),
        ("logs", "a", "-n", "-1"),
        ("call",),
        ("call", "t", "{"),
        ("call", "t", "[]"),
        ("call", "t", '{"a":NaN}'),
        ("reject",),
        ("serve", "--log-level", "loud"),
    ],
)
def test_wrong_usage_is_2_and_on_stderr(place: Place, arguments: tuple[str, ...]) -> None:
    """Nothing was sent anywhere: there is no daemon to send it to."""
    out, err, status = place.run(*arguments)
    assert (out, status) == ("", 2)
    assert "mcphub" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("status", "x"),
        ("status", "--watch"),
        ("tools",),
        ("call", "t"),
        ("reconnect", "--all"),
        ("logs", "x"),
        ("approve",),
        ("approve", "x"),
        ("reject", "x"),
        ("stop",),
    ],
)
def test_no_daemon_is_3(place: Place, arguments: tuple[str, ...]) -> None:
    """One line with the path, the cause and what to do."""
    said = f"mcphub: cannot reach the mcphub daemon at {place.socket}: No such file or directory."
    assert place.run(*arguments) == ("", f"{said} Start it with `mcphub serve`\n", 3)


def test_a_runtime_directory_that_cannot_be_used(place: Place) -> None:
    """A wrong environment is an error message too."""
    place.environment["XDG_RUNTIME_DIR"] = "/" + "x" * 200
    out, err, status = place.run("status")
    assert (out, status) == ("", 1)
    assert err.startswith("mcphub: cannot use the socket path /xxx")


def test_a_reader_that_left_ends_it_quietly(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """`mcphub tools | head -1` says nothing on stderr."""
    hub.tool_list = [tool(f"t{number}", "x" * 100) for number in range(5000)]
    command = [sys.executable, "-m", "mcphub", "tools"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment, cwd=place.workspace
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(10)) == (b"", 141)


def test_ctrl_c_ends_it_quietly(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """130, no traceback; and the daemon hears of it."""
    with place.terminal("call", "hang") as terminal:
        portal.call(hub.hanging.wait)
        terminal.type(b"\x03")
        seen, status = terminal.end()
        assert (seen.replace(b"^C", b""), status) == (b"", 130)
        portal.call(hub.cancelled.wait)


def test_an_output_that_is_full_is_said(place: Place, portal: BlockingPortal) -> None:
    """A report that could not be written is not a success."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            place.command("status"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=place.environment,
            cwd=place.workspace,
            timeout=20,
        )
    assert done.stderr == b"mcphub: cannot finish status: [Errno 28] No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_stream_is_no_crash(place: Place, portal: BlockingPortal, closed: str) -> None:
    """Started with stdout or stderr closed, a verb does its work, and never writes to the wrong one."""
    for verb in ("status", "call none"):
        command = ["sh", "-c", f'exec "$0" -m mcphub {verb} {closed}>&-', sys.executable]
        done = subprocess.run(command, capture_output=True, env=place.environment, cwd=place.workspace, timeout=20)
        assert b"Traceback" not in done.stderr + done.stdout
        assert (b"mcphub: " in done.stdout) is False
        assert done.returncode == (0 if verb == "status" else 1)


def test_another_encoding_is_no_crash(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """What the terminal cannot show is escaped."""
    hub.servers[0]["name"] = "中文"
    place.environment["PYTHONIOENCODING"] = "latin-1"
    out, err, status = place.run("status")
    assert "\\u4e2d\\u6587" in out
    assert (err, status) == ("", 0)


def test_connect_passes_by_the_command_line(place: Place) -> None:
    """`mcphub connect` imports neither argparse nor any verb before it talks; without a daemon it fails by itself."""
    code = (
        "import sys; from mcphub.cli.main import main; status = main(['connect', '--no-start'])\n"
        "print(status, *sorted({'argparse', 'json', 're', 'typing', 'asyncio'} & set(sys.modules)))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('mcphub.cli')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=place.environment, timeout=20
    )
    assert done.stdout == "1\nmcphub.cli mcphub.cli.main\n"
    assert "cannot reach the mcphub daemon" in done.stderr


def test_only_the_asked_verb_is_loaded(place: Place, portal: BlockingPortal) -> None:
    """Start-up time: no other verb, no event loop, no HTTP library, no rich without a terminal."""
    code = (
        "import sys; from mcphub.cli.main import main; main(['status'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('mcphub')), file=sys.stderr)\n"
        "heavy = {'typing', 'socket', 'asyncio', 'rich', 'urllib', 'http', 'dataclasses', 'msgspec', 'shutil'}\n"
        "print(*sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=place.environment, timeout=20
    )
    assert done.stderr == (
        "mcphub mcphub.cli mcphub.cli.commands mcphub.cli.commands.status mcphub.cli.main mcphub.cli.output "
        "mcphub.cli.usage "
        "mcphub.client mcphub.config mcphub.config.runtime_dir mcphub.errors mcphub.observe mcphub.observe.escape\n\n"
    )


def test_every_verb_is_a_module_of_the_one_shape() -> None:
    """The table and the files say the same; each has --json but those that speak another language."""
    folder = Path(import_module("mcphub.cli.commands").__file__ or "").parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == {module for module, _ in COMMANDS.values()}
    for verb in COMMANDS:
        options = {option for action in build_parser(verb)._actions for option in action.option_strings}
        assert ("--json" in options) == (verb not in ("serve", "connect")), verb
        assert "--yes" not in options


def test_what_connect_documents_is_what_the_bridge_reads() -> None:
    """Its options are kept in two places, since the bridge must not load argparse."""
    documented = {option for action in build_parser("connect")._actions for option in action.option_strings}
    assert documented - {"-h", "--help"} == set(re.findall(r"^  (--[a-z-]+)", bridge.USAGE, re.MULTILINE))


def test_main_can_be_called_by_a_program(place: Place, portal: BlockingPortal) -> None:
    """With its own arguments it returns the status, and leaves the collector as it was."""
    code = "import gc, sys; from mcphub.cli.main import main; s = main(['status', '--json']); print(s, gc.isenabled())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=place.environment, timeout=20)
    report, _, last = done.stdout.rstrip().rpartition("\n")
    assert json.loads(report)["revision"] == 1
    assert last == "0 True"


@pytest.mark.parametrize("words", [("status", "none"), ("logs", "none")])
def test_failures_as_json(place: Place, portal: BlockingPortal, words: tuple[str, ...]) -> None:
    """Whoever reads stdout as JSON reads the reason there; stderr and exit status are as without it."""
    out, err, status = place.run(*words, "--json")
    message = "there is no server none"
    assert (json.loads(out), err, status) == ({"error": {"message": message}}, f"mcphub: {message}\n", 1)
    assert place.run(*words) == ("", err, status)


def test_no_daemon_as_json(place: Place) -> None:
    """One document, on one line where the verb prints one a line."""
    for words in (("status",), ("status", "--watch"), ("call", "x")):
        out, err, status = place.run(*words, "--json")
        assert json.loads(out)["error"]["message"] and err.startswith("mcphub: ") and status == 3
        assert (out.count("\n") == 1) is ("--watch" in words)


def test_a_runtime_directory_that_does_not_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The XDG base directory specification: a relative path is passed over, which is said once."""
    monkeypatch.setattr(runtime_dir, "_temporary", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    for words, status in ((["status"], 3), (["connect", "--no-start"], 1)):
        assert main(words) == status
        first, second = capsys.readouterr().err.splitlines()
        assert "XDG_RUNTIME_DIR is 'run', but only an absolute path counts there; /" in first
        assert "cannot reach the mcphub daemon at " in second
