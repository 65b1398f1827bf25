"""The verb status."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from mcphub.cli.commands import status
from mcphub.status import NetworkStatus, ServerStatus, SessionStatus
from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub, failed, origin, served, server

SHOWN = "a\\x1b]0;owned\\x07\\u202eb\\U000e0041\\x9b31m"


def rest(name: str, state: str, text: str, reason: str, **changes: Any) -> ServerStatus:
    return failed(name, state=state, state_text=text, reason=reason, last_error=None, **changes)


def test_the_table(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """One row a server: name, state, tools, connection, process, origin, and what keeps it."""
    hub.servers = [
        server("time"),
        failed("github"),
        rest("slow", "pending", "pending 3/5", "connection lost", retry_in=4.2),
        rest("proj", "disabled", "disabled", "waits", scope="project", origin=origin("proj", 0, path="/w/.mcp.json")),
    ]
    table = """\
NAME    STATE        TOOLS  CONNECTION               PID   RSS    UPTIME  ORIGIN                            WHY
time    connected    2      stdio legacy 2025-11-25  4712  25.0M  2h02m   user ~/.config/mcphub/mcp.json:3  -
github  failed       -      stdio                    -     -      -       user ~/.config/mcphub/mcp.json:3  {}
slow    pending 3/5  -      stdio                    -     -      -       user ~/.config/mcphub/mcp.json:3  {}
proj    disabled     -      stdio                    -     -      -       project /w/.mcp.json              waits
""".format("5 attempts failed: spawn npx ENOENT", "again in 4s; connection lost")
    head = "mcphub 0.1.0, pid 4711, up 1m, 30.0M: 1 of 4 servers connected, 0 agents attached\n\n"
    assert place.run("status") == (head + table, "", 1)


def test_a_long_reason(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """One line of stderr does not make a row of thousands of characters; what stands about the one server is bounded
    too, and what it wrote to stdout stands below its stderr."""
    long = "x" * 9000
    hub.servers = [failed("github", reason=long)]
    error = hub.servers[0]["last_error"]
    assert error is not None
    error["stdout_tail"] = ["a banner", "Error: no key \x1b[0m"]
    assert max(map(len, place.run("status")[0].splitlines())) < 700
    about = place.run("status", "github")[0].splitlines()
    assert max(map(len, about)) < 4100
    assert about[-2:] == ["  stdout        | a banner", "                | Error: no key \\x1b[0m"]


@pytest.mark.parametrize(
    ("standing", "waiting", "said"),
    [
        ("online", 0, ""),
        ("online", 1, "; 1 server waits for a way to its host"),
        ("online", 2, "; 2 servers wait for a way to their hosts"),
        ("local", 0, "; local networks only since 2026-01-02T03:04:05+00:00"),
        ("local", 3, "; local networks only since 2026-01-02T03:04:05+00:00, 3 servers wait"),
        ("offline", 1, "; offline since 2026-01-02T03:04:05+00:00, 1 server waits"),
    ],
)
def test_a_machine_without_a_network(
    place: Place, hub: CannedHub, portal: BlockingPortal, standing: str, waiting: int, said: str
) -> None:
    """The line above the table says what cannot be reached, and since when; a machine that is online is not named."""
    hub.network = NetworkStatus(standing=standing, since="2026-01-02T03:04:05+00:00", waiting=waiting)
    out, _, _ = place.run("status")
    assert out.splitlines()[0].endswith(f"0 agents attached{said}")
    assert json.loads(place.run("status", "--json")[0])["daemon"]["network"]["waiting"] == waiting


def test_without_servers_there_is_no_table(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """And a file that cannot be read is named."""
    hub.servers, hub.problems = [], ["cannot read /x/mcp.json: line 3: \x1b"]
    assert place.run("status") == (
        "mcphub 0.1.0, pid 4711, up 1m, 30.0M: 0 of 0 servers connected, 0 agents attached\n"
        "\n"
        "problem: cannot read /x/mcp.json: line 3: \\x1b\n",
        "",
        1,
    )


def test_everything_about_one(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Origin, process, what the server said of itself, the error with its remedy and the tail of stderr."""
    hub.servers = [
        failed(
            "github",
            reason="5 attempts failed",
            attempt=5,
            shadows=[origin("github", 9, path="/etc/mcphub/mcp.json", scope="managed")],
            command=["npx", "-y", "${PKG}", "a b"],
            warnings=["odd schema"],
            server_info={"name": "gh", "version": "2"},
            capabilities={"tools": {"listChanged": True}},
            counters={"calls": 3, "errors": 1},
            calls_in_flight=1,
            queued=4,
            further_sessions=2,
            stale="what it offers is shown as it was 5 min ago",
            workspace="/w",
            ide={"name": "VS Code", "running_in_windows": True},
        )
    ]
    assert place.run("status", "github") == (
        """\
github
  state         failed
  reason        5 attempts failed
  layer         process
  attempt       5 of 5
  origin        user ~/.config/mcphub/mcp.json:3 mcpServers.github
  shadows       managed /etc/mcphub/mcp.json:9 mcpServers.github
  workspace     /w
  connection    stdio
  command       npx -y '${PKG}' 'a b'
  editor        VS Code, running in Windows
  server        gh 2
  capabilities  {"tools": {"listChanged": true}}
  lists         what it offers is shown as it was 5 min ago
  in flight     1
  waiting       4
  sessions      2
  counters      calls 3, errors 1
  warning       odd schema
  last error    spawn exited (process), exit status 127, 2026-08-01T12:00:00Z
                spawn npx ENOENT
  what to do    install Node.js
  stderr        | first line
                | spawn npx ENOENT
""",
        "",
        1,
    )
    assert place.run("status", "none") == ("", "mcphub: there is no server none\n", 1)


@pytest.mark.parametrize("arguments", [("status",), ("status", "x" + EVIL), ("status", "--json")])
def test_text_of_servers_is_escaped(
    place: Place, hub: CannedHub, portal: BlockingPortal, arguments: tuple[str, ...]
) -> None:
    """Names, messages, stderr, what the server said of itself: nothing of it can steer a terminal."""
    hub.servers = [
        failed("x" + EVIL, EVIL, reason=EVIL, server_info={"name": EVIL}, capabilities={EVIL: {}}, command=[EVIL]),
        server("y", warnings=[EVIL, "a\nb"], counters={EVIL: 1}),
    ]
    out, err, code = place.run(*arguments)
    assert (err, code) == ("", 1)
    assert all(char.isprintable() or char == "\n" for char in out)
    assert SHOWN in out or json.loads(out)["servers"][0]["name"] == "x" + EVIL


@pytest.mark.parametrize(
    ("state", "expected"),
    [("connected", 0), ("pending", 0), ("disabled", 0), ("failed", 1), ("needs-auth", 1)],
)
def test_the_exit_status_says_whether_somebody_is_needed(
    place: Place, hub: CannedHub, portal: BlockingPortal, state: str, expected: int
) -> None:
    """Resting and starting are well; with --json too."""
    hub.servers.append(server("x", state=state, state_text=state))
    assert place.run("status")[2] == expected
    out, _, code = place.run("status", "--json")
    assert (json.loads(out), code) == (hub.status("", None), expected)


def test_a_terminal_gets_a_table_with_colours(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Green and red are ours, escapes of servers are text."""
    hub.servers = [server("time"), failed("github", EVIL)]
    with place.terminal("status", columns=220) as terminal:
        seen, code = terminal.end()
    assert code == 1
    assert b"\x1b[32mconnected\x1b[0m" in seen
    assert b"\x1b[1;31mfailed" in seen
    assert SHOWN.encode() in seen
    assert b"\x1b]0;" not in seen
    assert "\u202e".encode() not in seen


def test_no_color_is_respected(place: Place, portal: BlockingPortal) -> None:
    """no-color.org: the table stays, the colours go."""
    place.environment["NO_COLOR"] = "1"
    with place.terminal("status") as terminal:
        seen, _ = terminal.end()
    assert b"connected" in seen
    assert b"\x1b[32m" not in seen


def test_a_narrow_terminal_does_without_some_columns(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """No cell but the last is broken over lines; what is left out stands in `status NAME`."""
    hub.servers = [server("time"), failed("github", "no such thing")]
    with place.terminal("status", columns=100) as terminal:
        seen, _ = terminal.end()
    head = next(line for line in seen.splitlines() if b"NAME" in line)
    assert b"CONNECTION" not in head
    assert all(word in head for word in (b"NAME", b"STATE", b"TOOLS", b"PID", b"UPTIME", b"WHY"))


def test_a_narrow_terminal_is_no_crash(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Every column folds."""
    hub.servers = [failed("github", "中文" * 200)]
    with place.terminal("status", columns=20) as terminal:
        assert terminal.end()[1] == 1


def test_watch_prints_each_change(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """One report a line as JSON, each complete at once; the daemon's end is exit status 3."""
    command = place.command("status", "--watch", "--json")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment, cwd=place.workspace
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["revision"] == 1
        portal.call(hub.changed)
        assert json.loads(process.stdout.readline())["revision"] == 2
        process.send_signal(signal.SIGINT)
        assert (process.stderr.read(), process.wait(10)) == (b"", 130)


def test_watch_ends_with_the_daemon(place: Place, hub: CannedHub) -> None:
    """Not as if all were well."""
    command = place.command("status", "--watch")
    with served(hub, place.socket):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment, cwd=place.workspace
        )
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"mcphub 0.1.0")
    with process:
        assert process.wait(10) == 3
        assert process.stderr.read() == f"mcphub: the mcphub daemon at {place.socket} has stopped\n".encode()


def test_watch_redraws_a_terminal(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """The screen shows the newest report; Ctrl-C ends it."""
    with place.terminal("status", "--watch") as terminal:
        terminal.until(b"connected")
        hub.servers = [failed("github")]
        portal.call(hub.changed)
        terminal.until(b"github")
        terminal.type(b"\x03")
        seen, code = terminal.end()
    assert seen.count(b"\x1b[H\x1b[2J") == 2
    assert code == 130


def test_places_are_short_where_they_are_ours() -> None:
    """~ for the home, and only for the home."""
    assert status.place(origin("x", 3), "/home/u/") == "~/.config/mcphub/mcp.json:3"
    assert status.place(origin("x", 0, path="/home/user2/f"), "/home/u") == "/home/user2/f"
    assert status.place(origin("x", 0, path="/f"), "/") == "~/f"
    assert status.place(origin("x", 0, path="/f"), "") == "/f"
    assert [status.short(path, "/home/u") for path in ("/home/u", "", "/home/user")] == ["~", "", "/home/user"]


def test_who_uses_it(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """The agents by name, number and directory, how it is shared, and what sharing saves."""
    hub.servers = [server("time", sharing="workspace", used_by=[1, 3])]
    hub.attached = [
        SessionStatus(id=1, client="cursor", workspace="/w", era=None, pid=None, since=1.0, calls_in_flight=0),
        SessionStatus(id=2, client="other", workspace="/v", era=None, pid=None, since=1.0, calls_in_flight=0),
        SessionStatus(id=3, client="", workspace="", era=None, pid=None, since=1.0, calls_in_flight=0),
    ]
    shown = place.run("status", "time")[0]
    assert "  sharing       workspace\n" in shown
    assert "  used by       2: cursor (1, /w), agent (3)\n" in shown
    hub.saved = 25 << 20
    assert place.run("status")[0].startswith(
        "mcphub 0.1.0, pid 4711, up 1m, 30.0M: 1 of 1 servers connected, 3 agents attached, 25.0M saved by sharing\n"
    )


def instance(name: str, pid: int, workspace: str, users: list[int], **changes: Any) -> ServerStatus:
    return server(name, pid=pid, workspace=workspace, used_by=users, **changes)


def agents() -> list[SessionStatus]:
    places = [("claude", "/home/u/a"), ("cursor", "/home/u/a"), ("claude", ""), ("", "/v")]
    return [
        SessionStatus(id=n, client=client, workspace=place, era=None, pid=None, since=1.0, calls_in_flight=0)
        for n, (client, place) in enumerate(places, 1)
    ]


def test_instances_of_one_server(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Servers are counted as entries, instances beside them, and rows of one name say for whom they are."""
    hub.attached = agents()
    hub.servers = [
        instance("time", 1, "", [1, 2, 3, 4]),
        instance("own", 2, "/home/u/a", [1], sharing="agent"),
        instance("own", 3, "/home/u/a", [2], sharing="agent"),
        instance("own", 4, "", [3], sharing="agent"),
        instance("dir", 5, "/home/u/a", [1, 2], sharing="workspace"),
        instance("dir", 6, "/v", [4], sharing="workspace", state="failed", state_text="failed"),
        instance("dir", 7, "", [3], sharing="workspace"),
        instance("off", 8, "", [], state="disabled", state_text="disabled"),
        instance("off", 9, "/v", [], state="disabled", state_text="disabled"),
    ]
    out = place.run("status")[0]
    head = "mcphub 0.1.0, pid 4711, up 1m, 30.0M: 3 of 4 servers connected (6 of 7 instances), 4 agents attached\n"
    assert out.startswith(head)
    assert status.whose(hub.servers, hub.attached, "/home/u") == [
        "everybody",
        "claude (1) in ~/a",
        "cursor (2) in ~/a",
        "claude (3)",
        "~/a",
        "/v",
        "no workspace",
        "everybody",
        "/v",
    ]
    table = out.splitlines()[2:]
    assert table[0].split()[:3] == ["NAME", "FOR", "STATE"]
    assert table[6].startswith("dir   /v")
    with place.terminal("status", columns=100) as terminal:
        narrow, _ = terminal.end()
    assert all(text in narrow for text in (b"FOR", b"cursor (2) in", b"no workspace"))
    assert b"CONNECTION" not in narrow


def test_instances_for_what_agents_brought() -> None:
    """Those of one place are told apart by who uses them."""
    rows = [instance("db", 1, "", [1, 2]), instance("db", 2, "", [4]), instance("db", 3, "", [])]
    assert status.whose(rows, agents(), "/home/u") == ["claude (1), cursor (2)", "agent (4)", "nobody now"]
    rows = [instance("db", n, "/home/u/a", [n], sharing="workspace") for n in (1, 2)]
    assert status.whose(rows, agents(), "/home/u") == ["~/a: claude (1)", "~/a: cursor (2)"]
    assert status.whose([instance("db", 1, "/v", [4], sharing="agent")], agents(), "/home/u") == []
    one = [instance("x", 1, "/v", [], sharing="agent"), instance("x", 2, "/v", [4], sharing="agent")]
    assert status.whose(one, agents(), "/home/u") == ["no agent now in /v", "agent (4) in /v"]


def test_what_counts_as_a_server() -> None:
    """One entry; of another file, or added for another directory, it is another server."""
    other = server("a", origin=origin("a", 1, path="/w/.mcp.json"))
    assert status.count([server("a"), other]) == "2 of 2 servers connected"
    assert status.count([server("a"), server("a")]) == "1 of 1 servers connected (2 of 2 instances)"
    added = [server("a", scope="dynamic", workspace=place) for place in ("/v", "/w")]
    assert status.count(added) == "2 of 2 servers connected"
    assert status.count([]) == "0 of 0 servers connected"
    mixed = [server("a"), server("a", state="disabled", workspace="/w"), server("b", state="pending")]
    assert status.count(mixed) == "1 of 2 servers connected"


def test_the_most_urgent_comes_first() -> None:
    """That it cannot be reached stands before what is odd about its entry, and once."""
    row = server("a", reason="no way to its host", layer="network", warnings=["no way to its host", "plain http"])
    assert status.why(row) == "no way to its host; plain http"
    assert status.detail(row, "").count("no way to its host") == 1
    slow = server("a", state_text="connected (slow)", reason="slow: it took 3 s", slow=True, warnings=["plain http"])
    assert status.why(slow) == "slow: it took 3 s; plain http"


def test_an_error_that_is_over() -> None:
    """It is said how long ago it was, and nothing is to be done; it is not what keeps the server from anything."""
    error: Any = {**failed("a")["last_error"], "ago": 125.0}  # type: ignore[dict-item]
    now = status.detail(failed("a", last_error=error), "")
    assert "  last error    spawn exited (process), exit status 127, 2026-08-01T12:00:00Z, 2m ago\n" in now
    assert "  what to do    install Node.js\n" in now
    over = {**error, "over": True}
    well = status.detail(server("a", last_error=over), "")
    assert "  earlier error spawn exited (process), exit status 127, 2026-08-01T12:00:00Z, 2m ago\n" in well
    assert "what to do" not in well
    assert status.why(rest("a", "pending", "pending (idle)", "idle")) == "idle"
    resting = server("a", state="pending", state_text="pending (idle)", reason="idle", last_error=over)
    assert status.why(resting) == "idle"


LONG = "cannot use server bad: /srv/mcp.json:7 mcpServers.bad.args: " + "a long story, " * 20 + "and its end"


def test_the_reason_is_whole_where_nobody_counts_columns(
    place: Place, hub: CannedHub, portal: BlockingPortal
) -> None:
    """A pipe gets all of it; a terminal not what stands in other columns, nor more than fits."""
    hub.servers = [rest("bad", "failed", "failed", LONG, origin=origin("bad", 7, path="/srv/mcp.json"))]
    assert LONG in place.run("status")[0]
    with place.terminal("status", columns=300) as terminal:
        wide, _ = terminal.end()
    assert b"cannot use server" not in wide and wide.count(b"/srv/mcp.json:7") == 1
    assert b"mcpServers.bad.args: a long story" in wide and b"..." in wide
    with place.terminal("status", columns=100) as terminal:
        narrow, _ = terminal.end()
    assert b"/srv/mcp.json:7" in narrow and b"cannot use server" not in narrow


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "now"), (0.9, "now"), (1.0, "in 1s"), (61.0, "in 1m")])
def test_when_it_is_tried_again(
    place: Place, hub: CannedHub, portal: BlockingPortal, seconds: float, said: str
) -> None:
    """What is on its way is not announced."""
    hub.servers = [rest("slow", "pending", "pending 3/5", "lost", retry_in=seconds)]
    assert f"again {said}; lost" in place.run("status")[0]
    assert f"  again         {said}\n" in place.run("status", "slow")[0]


def test_what_credentials_want() -> None:
    """A connected server that lacks a scope says so in its row, and everywhere what to do about it."""
    need: Any = {"reason": "insufficient_scope", "detail": "its sign-in does not allow this", "how": "browser"}
    connected = server("a", sign_in={**need, "scopes": ["read", "write"]}, warnings=["odd"])
    text = "its sign-in does not allow this (read write): mcphub login a"
    assert status.why(connected) == f"{text}; odd"
    assert text in status.detail(connected, "")
    assert status.sign_in(server("a")) == ""
    for how in status.SIGN_IN:
        assert status.sign_in(server("a", sign_in={**need, "how": how, "scopes": []})).startswith(need["detail"])


def test_how_a_sign_in_failed() -> None:
    """The table says it too, and of a connected server why its tokens are not renewed."""
    need: Any = {"reason": "denied", "detail": "as.example says no", "how": "browser", "scopes": []}
    waiting = server("a", state="needs-auth", reason="needs a sign-in: mcphub login a", sign_in=need)
    assert status.why(waiting) == "as.example says no (denied); needs a sign-in: mcphub login a"
    first = {**need, "reason": "login_required", "detail": "nobody has signed in to it yet"}
    assert status.why(server("a", state="needs-auth", reason="needs a sign-in", sign_in=first)) == "needs a sign-in"
    denied = {**need, "reason": "policy_denied", "detail": "it is not allowed", "how": "wait"}
    assert status.why(server("a", sign_in=denied)).endswith("at once by: mcphub reconnect a")


def test_questions_that_nobody_has_answered() -> None:
    """A server's page says who was asked and has not answered; its row does so where others wait for that."""
    asked: Any = {"client": "claude", "workspace": "/w", "since": 61.0}
    row = server("a", unanswered=[asked])
    assert status.why(row) == ""
    assert "  unanswered    claude in /w has not answered a question of it for 1m\n" in status.detail(row, "")
    row = server("a", unanswered=[asked, {**asked, "client": "", "workspace": ""}], queued=2)
    assert "claude in /w has not answered a question of it for 1m, and 2 calls wait; an agent has" in status.why(row)
    assert status.why(server("a", unanswered=[asked], queued=1)).endswith("and 1 call waits")


def test_calls_that_are_held_back() -> None:
    """A connected server's row, and its page, say whose calls, why, and when the next one goes."""
    one: Any = {
        "client": "claude", "workspace": "/w", "calls": "write", "state": "open", "failures": 5, "since": 61.0,
        "until": 4.5, "cause": "HTTP 503",
    }  # fmt: skip
    other = {**one, "client": "", "workspace": "", "until": None}
    row = server("a", held_back=[one, other])
    text = "write calls of claude are held back in /w for 1m now, after 5 without an answer (HTTP 503), "
    text += "the next goes in 4s"
    assert status.why(row).split("; ")[0] == text
    assert f"  held back     {text}\n" in status.detail(row, "")
    assert "write calls of an agent are held back for 1m now" in status.why(row)
    assert status.why(row).endswith("one is finding out whether it answers again")
