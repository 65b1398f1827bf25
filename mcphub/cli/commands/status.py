"""Owns the verb status: the table of servers, the whole of one server, both as they change.

It must not know how a state comes about; it prints what the daemon reports.
"""

from __future__ import annotations

import gc
import os

from mcphub.cli import output
from mcphub.cli.usage import server_name
from mcphub.client import ControlClient, current_workspace
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from mcphub.status import (
        IdeStatus,
        LastError,
        NetworkStatus,
        OriginStatus,
        ServerStatus,
        SessionStatus,
        StatusReport,
    )

DESCRIPTION = "Show what runs, what does not, and why."

HEADERS = ("NAME", "STATE", "TOOLS", "CONNECTION", "PID", "RSS", "UPTIME", "ORIGIN", "WHY")
#: The further column of a table in which a name stands more than once: for whom that instance is.
FOR = "FOR"
#: Columns of WHY in the table on a terminal, and where it is none; `mcphub status NAME` has the whole, each line in at
#: most so many.
WHY = 100
WHY_PLAIN = 500
LINE = 4000
#: Columns of a terminal from which on every column of the table is shown, and those that a narrower one does without.
WIDE = 130
ONLY_WIDE = frozenset({"CONNECTION", "RSS", "ORIGIN"})
STYLES = {"connected": "green", "failed": "bold red", "needs-auth": "yellow", "pending": "cyan", "disabled": "dim"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", type=server_name, metavar="NAME", help="everything about one server")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; with --watch one report a line")
    parser.add_argument("--watch", action="store_true", help="print it again whenever it changes, until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    client = ControlClient(workspace=current_workspace())
    if args.watch:
        return _watch(client.watch(args.name), client.path, args.json, args.name is not None)
    report = client.status(args.name)
    if args.json:
        print(output.json_text(report))
    else:
        _show(report, args.name is not None)
    return exit_status(report)


def exit_status(report: StatusReport) -> int:
    """1 where something needs a person, else 0."""
    sick = any(server["state"] in ("failed", "needs-auth") for server in report["servers"])
    return 1 if sick or report["problems"] else 0


def row(server: ServerStatus, home: str) -> tuple[str, ...]:
    """The cells under HEADERS; paths below `home` begin with ~."""
    return (
        server["name"],
        server["state_text"],
        "" if server["tools"] is None else str(server["tools"]),
        connection(server),
        "" if server["pid"] is None else str(server["pid"]),
        output.size(server["rss"]),
        output.duration(server["uptime"]),
        f"{server['scope']} {place(server['origin'], home)}",
        output.shortened(output.line(why(server)), WHY_PLAIN),
    )


def connection(server: ServerStatus) -> str:
    """Transport, era and version, as far as they are known."""
    return " ".join(part for part in (server["transport"], server["era"], server["version"]) if part)


def place(origin: OriginStatus, home: str) -> str:
    """The file and line that an entry came from."""
    path = short(origin["path"], home)
    return f"{path}:{origin['line']}" if origin["line"] else path


def short(path: str, home: str) -> str:
    """The path, with ~ for the home."""
    if not home or not path:
        return path
    home = home.rstrip("/")
    return "~" + path[len(home) :] if path == home or path.startswith(f"{home}/") else path


def why(server: ServerStatus) -> str:
    """What keeps it from being connected, and when it is tried again; for a connected one, its warnings."""
    error = server["last_error"]
    if server["state"] == "connected":  # the most urgent first: a table shows the beginning
        urgent = [*filter(None, [server["reason"], sign_in(server)]), *held_back(server)]
        # A question alone is nobody's trouble.
        return "; ".join([*urgent, *(unanswered(server) if server.get("queued") else []), *warnings(server)])
    text = server["reason"]
    if error is not None and not error.get("over") and error["message"] and error["message"] not in text:
        text = f"{text}: {error['message']}" if text else error["message"]
    need = server.get("sign_in")
    if need is not None and need["reason"] != "login_required" and need["detail"] not in text:
        failed = f"{need['detail']} ({need['reason']})"  # as a person's last sign-in did, say
        text = f"{failed}; {text}" if text else failed
    if server["retry_in"] is not None:
        again = f"again {retry(server['retry_in'])}"
        text = f"{again}; {text}" if text else again
    return text


#: What to do about a sign-in, by `how` of SignInStatus.
SIGN_IN = {
    "browser": "mcphub login {name}",
    "idp_login": "mcphub login {name} (at the organisation, once for all)",
    "config": "correct oauth of its entry",
    "vault": "mcphub vault unlock",
    "wait": "it is tried again by itself, at once by: mcphub reconnect {name}",
}


def sign_in(server: ServerStatus) -> str:
    """What its credentials want, and what to do; "" = nothing."""
    if "sign_in" not in server:
        return ""
    need = server["sign_in"]
    scopes = f" ({' '.join(need['scopes'])})" if need["scopes"] else ""
    return f"{need['detail']}{scopes}: {SIGN_IN[need['how']].format(name=server['name'])}"


def warnings(server: ServerStatus) -> list[str]:
    """Those that its reason does not say already."""
    return [warning for warning in server["warnings"] if warning not in server["reason"]]


def held_back(server: ServerStatus) -> list[str]:
    """A sentence for each kind of calls that is held back."""
    out = []
    for one in server.get("held_back", []):
        where = f" in {one['workspace']}" if one["workspace"] else ""
        until = one["until"]
        end = "one is finding out whether it answers again" if until is None else f"the next goes {retry(until)}"
        out.append(
            f"{one['calls']} calls of {one['client'] or 'an agent'} are held back{where} for "
            f"{output.duration(one['since'])} now, after {one['failures']} without an answer ({one['cause']}), {end}"
        )
    return out


def unanswered(server: ServerStatus) -> list[str]:
    """A sentence for each agent that has not answered a question of it."""
    waiting = server.get("queued", 0)
    for_it = f", and {waiting} {'call waits' if waiting == 1 else 'calls wait'}" if waiting else ""
    out = []
    for one in server.get("unanswered", []):
        where = f" in {one['workspace']}" if one["workspace"] else ""
        asked = f"{one['client'] or 'an agent'}{where} has not answered a question of it"
        out.append(f"{asked} for {output.duration(one['since'])}{for_it}")
    return out


def brief(server: ServerStatus, text: str, *, origin: bool) -> str:
    """What `why` says as the table on a terminal has it: without the name, which stands beside it, and without the
    file and line where `origin` stands there too, and cut."""
    text = text.removeprefix(f"cannot use server {server['name']}: ")
    if origin:
        text = text.removeprefix(f"{place(server['origin'], '')} ")
    return output.shortened(output.line(text), WHY)


def retry(seconds: float) -> str:
    """When it is tried again; it may be on its way already."""
    return f"in {output.duration(seconds)}" if seconds >= 1 else "now"


def summary(report: StatusReport) -> str:
    """The line above the table."""
    daemon = report["daemon"]
    agents = len(report["sessions"])
    return output.line(
        f"mcphub {daemon['version']}, pid {daemon['pid']}, up {output.duration(daemon['uptime'])}, "
        f"{output.size(daemon['rss'])}: {count(report['servers'])}, "
        f"{agents} {'agent' if agents == 1 else 'agents'} attached"
        + (f", {output.size(report['saved'])} saved by sharing" if report.get("saved") else "")
        + offline(daemon.get("network"))
    )


def count(servers: Sequence[ServerStatus]) -> str:
    """How many are connected: a server is what one entry says, and is connected where one of its instances is. Where
    one has several, instances are counted too, without those that are switched off."""
    connected = [server for server in servers if server["state"] == "connected"]
    wanted = [server for server in servers if server["state"] != "disabled"]
    text = f"{len(set(map(_entry, connected)))} of {len(set(map(_entry, servers)))} servers connected"
    if len(wanted) > len(set(map(_entry, wanted))):
        text += f" ({len(connected)} of {len(wanted)} instances)"
    return text


def _entry(server: ServerStatus) -> tuple[str, str, str, str]:
    # Those that were added while the daemon runs have their directory nowhere else.
    directory = server["workspace"] if server["scope"] == "dynamic" else ""
    return server["name"], server["origin"]["path"], server["origin"]["key"], directory


def whose(servers: Sequence[ServerStatus], sessions: Sequence[SessionStatus], home: str) -> list[str]:
    """For whom each of these instances is, the cells under FOR; [] where every name is there once."""
    if len({server["name"] for server in servers}) == len(servers):
        return []
    cells = [_whose(server, sessions, home) for server in servers]
    told = [(server["name"], cell) for server, cell in zip(servers, cells, strict=True)]
    for n, server in enumerate(servers):
        if told.count(told[n]) > 1:  # agents of one place that bring different values (`clientEnv`)
            agents = ", ".join(_named(server, sessions)) or "nobody now"
            cells[n] = f"{cells[n]}: {agents}" if server["workspace"] else agents
    return cells


def _whose(server: ServerStatus, sessions: Sequence[SessionStatus], home: str) -> str:
    sharing, where = server.get("sharing", "auto"), short(server["workspace"], home)
    if sharing == "agent":
        return (", ".join(_named(server, sessions)) or "no agent now") + (f" in {where}" if where else "")
    return where or ("no workspace" if sharing == "workspace" else "everybody")


def _named(server: ServerStatus, sessions: Sequence[SessionStatus]) -> list[str]:
    """The agents that use it, each with its number."""
    users = server.get("used_by", [])
    return [f"{session['client'] or 'agent'} ({session['id']})" for session in sessions if session["id"] in users]


def rows(report: StatusReport, home: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The table: its headers, and the cells of each row."""
    found = [row(server, home) for server in report["servers"]]
    cells = whose(report["servers"], report["sessions"], home)
    if not cells:
        return HEADERS, found
    headers = (HEADERS[0], FOR, *HEADERS[1:])
    return headers, [(one[0], cell, *one[1:]) for one, cell in zip(found, cells, strict=True)]


def offline(network: NetworkStatus | None) -> str:
    """What of the line above the table is there while the machine has no network, or no way to some server."""
    if network is None or (network["standing"] == "online" and not network["waiting"]):
        return ""
    waiting = network["waiting"]
    wait = f"{waiting} {'server waits' if waiting == 1 else 'servers wait'}"
    if network["standing"] == "online":
        return f"; {wait} for a way to {'its host' if waiting == 1 else 'their hosts'}"
    what = "local networks only" if network["standing"] == "local" else "offline"
    return f"; {what} since {network['since']}" + (f", {wait}" if waiting else "")


def overview(report: StatusReport, home: str) -> str:
    """The whole of it as plain text."""
    text = summary(report) + "\n"
    if report["servers"]:
        text += "\n" + output.table(*rows(report, home))
    return text + problems(report)


def problems(report: StatusReport) -> str:
    lines = [f"problem: {output.line(problem)}\n" for problem in report["problems"]]
    lines += [f"warning: {output.line(warning)}\n" for warning in report["warnings"]]
    return "".join(["\n", *lines]) if lines else ""


def detail(server: ServerStatus, home: str, sessions: Sequence[SessionStatus] = ()) -> str:
    """Everything about one server, a line each; what is not known is left out."""
    info = server["server_info"] or {}
    fields = [
        ("state", server["state_text"]),
        ("reason", server["reason"]),
        ("layer", server.get("layer", "")),
        ("sign-in", sign_in(server)),
        *(("held back", text) for text in held_back(server)),
        *(("unanswered", text) for text in unanswered(server)),
        ("attempt", "" if server["attempt"] is None else f"{server['attempt']} of {server['attempts']}"),
        ("again", "" if server["retry_in"] is None else retry(server["retry_in"])),
        ("origin", _origin(server["scope"], server["origin"], home)),
        *(("shadows", _origin(other["scope"], other, home)) for other in server["shadows"]),
        ("workspace", server["workspace"]),
        ("connection", connection(server)),
        ("command", _command(server["command"])),
        ("editor", _editor(server.get("ide"))),
        ("pid", "" if server["pid"] is None else str(server["pid"])),
        ("memory", output.size(server["rss"])),
        ("uptime", output.duration(server["uptime"])),
        ("server", " ".join(str(info[key]) for key in ("name", "title", "version") if key in info)),
        ("capabilities", output.json_text(server["capabilities"], compact=True) if server["capabilities"] else ""),
        ("tools", "" if server["tools"] is None else str(server["tools"])),
        ("lists", server.get("stale", "")),
        ("in flight", str(server["calls_in_flight"] or "")),
        ("waiting", str(server.get("queued") or "")),
        ("sessions", str(server["further_sessions"] or "")),
        ("sharing", "" if server.get("sharing", "auto") == "auto" else server["sharing"]),
        ("used by", _agents(server.get("used_by", []), sessions)),
        ("counters", ", ".join(f"{key} {count}" for key, count in server["counters"].items())),
        *(("warning", warning) for warning in warnings(server)),
    ]
    lines = [f"  {key:<14}{output.shortened(output.line(value), LINE)}" for key, value in fields if value]
    return "\n".join([output.line(server["name"]), *lines, *_last_error(server["last_error"])]) + "\n"


def _editor(ide: IdeStatus | None) -> str:
    """Whose server it is, where an editor's extension wrote the entry."""
    if ide is None:
        return ""
    return (ide["name"] or "not named") + (", running in Windows" if ide["running_in_windows"] else "")


def _agents(numbers: list[int], sessions: Sequence[SessionStatus]) -> str:
    """Who they are: by name where they have told one, and where they work."""
    known = {session["id"]: session for session in sessions}
    found = [known[number] for number in numbers if number in known]
    places = [", ".join(filter(None, [str(one["id"]), one["workspace"]])) for one in found]
    names = [f"{one['client'] or 'agent'} ({place})" for one, place in zip(found, places, strict=True)]
    return f"{len(found)}: {', '.join(names)}" if found else ""


def _last_error(error: LastError | None) -> list[str]:
    if error is None:
        return []
    code = "" if error["exit_code"] is None else f", exit status {error['exit_code']}"
    what = error["phase"] if error["phase"] == error["kind"] else f"{error['phase']} {error['kind']}"
    layer = f" ({error['layer']})" if "layer" in error else ""
    ago = f", {output.duration(error['ago'])} ago" if "ago" in error else ""
    key = "earlier error" if error.get("over") else "last error"
    lines = [
        f"  {key:<14}{what}{layer}{code}{', ' if error['at'] else ''}{error['at']}{ago}",
        f"  {'':<14}{error['message']}",
    ]
    if error["remedy"] and not error.get("over"):
        lines.append(f"  {'what to do':<14}{error['remedy']}")
    for stream, tail in (("stderr", error["stderr_tail"]), ("stdout", error.get("stdout_tail", []))):
        lines += [f"  {stream if number == 0 else '':<14}| {text}" for number, text in enumerate(tail)]
    return [output.shortened(output.line(text), LINE) for text in lines]


def _origin(scope: str, origin: OriginStatus, home: str) -> str:
    return f"{scope} {place(origin, home)} {origin['key']}"


def _command(command: list[str]) -> str:
    if not command:
        return ""
    import shlex

    return shlex.join(command)


def _show(report: StatusReport, one: bool) -> None:
    home = os.environ.get("HOME", "")
    if one:
        details = [detail(server, home, report["sessions"]) for server in report["servers"]]
        print("\n".join(details) + problems(report), end="")
    elif output.on_terminal() and report["servers"]:
        _show_on_terminal(report, home)
    else:
        print(overview(report, home), end="")


def _show_on_terminal(report: StatusReport, home: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    # Cells broken into slivers help nobody: a narrow terminal gets fewer columns, and `status NAME` has them all.
    headers, lines = rows(report, home)
    shown = [n for n, header in enumerate(headers) if console.width >= WIDE or header not in ONLY_WIDE]
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for n in shown:
        grid.add_column(headers[n], no_wrap=headers[n] not in (FOR, headers[-1]), overflow="fold")
    for server, (*first, text) in zip(report["servers"], lines, strict=True):
        text = brief(server, text, origin=headers.index("ORIGIN") in shown)
        cells = [Text(output.line(cell) or "-") for cell in (*first, text)]
        cells[headers.index("STATE")].stylize(STYLES.get(server["state"], ""))
        grid.add_row(*(cells[n] for n in shown))
    console.print(Text(summary(report)))
    console.print(grid)
    print(problems(report), end="")


def _watch(reports: Iterator[StatusReport], path: str, as_json: bool, one: bool) -> int:
    gc.enable()  # main.py switches it off for what ends at once
    first = True
    for report in reports:
        if as_json:
            print(output.json_text(report, compact=True), flush=True)
            continue
        if output.on_terminal():
            print("\x1b[H\x1b[2J", end="")
        elif not first:
            print()
        first = False
        _show(report, one)
        print(end="", flush=True)
    raise ControlError(f"the mcphub daemon at {path} has stopped")
