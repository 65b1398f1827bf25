"""The verb login."""

from __future__ import annotations

import json
import signal
import subprocess
import time

from anyio.from_thread import BlockingPortal

from mcphub.cli.commands.login import otherwise, wanting
from mcphub.status import LoginReport, SignInStatus
from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, server


def done(name: str) -> LoginReport:
    return LoginReport(name=name, state="done", how="browser")


def failed(name: str) -> LoginReport:
    report = LoginReport(name=name, state="failed", how="browser", detail="as.example says no", reason="denied")
    return {**report, "oauth_error": "access_denied", "http_status": 0, "retry": False}


def needs(name: str, how: str) -> dict[str, object]:
    return {**server(name), "sign_in": SignInStatus(reason="login_required", detail="x", how=how, scopes=[])}


def test_which_servers_want_it() -> None:
    """Those that a person can do something about in a browser; the organisation once for all."""
    rows = [
        server("connected"), needs("a", "browser"), needs("b", "idp_login"), needs("c", "idp_login"),
        needs("d", "config"), needs("e", "vault"), needs("a", "browser"),
    ]  # fmt: skip
    assert wanting(rows) == ["a", "b"]  # type: ignore[arg-type]
    wrong, locked = otherwise(rows)  # type: ignore[arg-type]
    assert wrong == "d: x; correct oauth of its entry"
    assert "mcphub vault unlock" in locked


def test_a_sign_in(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """What a person reads: the host before the address; and what a program reads, a line for each step."""
    hub.logins = {"a": done("a"), "b": failed("b")}
    out, err, status = place.run("login", "a", "--no-browser")
    assert (err, status) == ("", 0)
    assert out.splitlines() == [
        "a: the sign-in is at as.example (mcphub registered itself there)",
        "open this address in any browser:",
        "  https://as.example/authorize?server=a",
        "then wait, or paste here the address that your browser ended at:",
        "a: signed in",
    ]
    out, err, status = place.run("login", "b", "--no-browser")
    assert status == 1
    assert err == "mcphub: cannot sign in to b: as.example says no (denied)\n"
    out, _, status = place.run("login", "b", "--no-browser", "--json")
    assert status == 1
    assert [json.loads(line)["state"] for line in out.splitlines()] == ["starting", "waiting", "failed"]
    out, err, status = place.run("login", "nobody", "--json")
    assert status == 1 and json.loads(out)["error"]["message"] == "there is no server nobody"


def test_no_browser_can_be_opened(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Without a terminal it ends, here and in the daemon, with a reason of the closed list; on a terminal the address
    can be opened elsewhere, and what comes of it pasted."""
    hub.logins = {"a": None}
    out, err, status = place.run("login", "a")
    assert status == 1
    assert "cannot open a browser" in err and "(browser_unavailable)" in err and "--no-browser" in err
    portal.call(hub.cancelled.wait)
    out, _, _ = place.run("login", "a", "--json")
    assert json.loads(out.splitlines()[-1])["reason"] == "browser_unavailable"
    with place.terminal("login", "a") as terminal:
        terminal.until(b"paste here the address")
        terminal.type(b"http://127.0.0.1:9/callback?code=x\n")
        until = time.monotonic() + 10
        while not any(one[0] == "paste" for one in hub.asked) and time.monotonic() < until:
            time.sleep(0.01)
        assert ("paste", place.workspace, "a", "http://127.0.0.1:9/callback?code=x") in hub.asked
        terminal.type(b"\x03")
        assert terminal.end()[1] == 130


def test_a_pasted_address(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """It comes to the daemon; Ctrl-C ends the sign-in there too."""
    hub.logins = {"a": None}
    pasted = ("paste", place.workspace, "a", "http://127.0.0.1:9/callback?code=x")
    with subprocess.Popen(
        place.command("login", "a", "--no-browser"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=place.environment, cwd=place.workspace,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.stdin.write(f"{pasted[-1]}\n".encode())
        process.stdin.flush()
        until = time.monotonic() + 10
        while pasted not in hub.asked and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"mcphub: cancelled the sign-in to a; nothing has changed\n"
    assert pasted in hub.asked
    portal.call(hub.cancelled.wait)


def test_usage(place: Place) -> None:
    """One server, or all; and without a daemon that is said."""
    for words in ([], ["a", "--all"], [""]):
        assert place.run("login", *words)[2] == 2
    assert place.run("login", "a")[2] == 3
