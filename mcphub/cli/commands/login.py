"""Owns the verb login: sign a person in to servers, in a browser here or anywhere.

It must not know how tokens are had: the daemon says where to go, waits, and keeps what comes of it.
"""

from __future__ import annotations

import os
import sys

from mcphub.cli import output
from mcphub.cli.usage import server_name
from mcphub.client import ControlClient, current_workspace
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import LoginReport, ServerStatus

DESCRIPTION = """\
Sign in to a server, or with --all to every one that needs it. A browser opens where the sign-in is; the daemon waits
for it to come back and keeps the tokens. On a machine without a browser, --no-browser prints the address: open it
anywhere, and paste the address that your browser ends at, even if it shows an error there. Ctrl-C ends the sign-in,
and what was signed in before stays so. --json prints a line for each step; the reasons are in docs/sign-in.md."""


def arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", type=server_name, metavar="NAME", help="the server")
    which.add_argument("--all", action="store_true", help="every server that needs a sign-in")
    parser.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    parser.add_argument("--json", action="store_true", help="print each step as a line of JSON")
    parser.set_defaults(follow=True)  # of what is JSON, an error too is one line


def run(args: argparse.Namespace) -> int:
    client = ControlClient(workspace=current_workspace())
    names, ends = [args.name], []
    if args.all:
        servers = client.status()["servers"]
        names = wanting(servers)
        for text in otherwise(servers):
            output.complain(text)
            ends.append(False)
    if not names and not ends and not args.json:
        print("no server needs a sign-in")
    for name in names:
        try:
            ends.append(_sign_in(client, name, browser=not args.no_browser, as_json=args.json))
        except ControlError as error:
            if not args.all or not error.status:
                raise
            output.complain(str(error))
            ends.append(False)
    return 0 if all(ends) else 1


def wanting(servers: list[ServerStatus]) -> list[str]:
    """The servers that a person can sign in to and must; one for all that take the organisation's login."""
    found: list[str] = []
    organisation = False
    for server in servers:
        how = server["sign_in"]["how"] if "sign_in" in server else ""
        if how == "idp_login":
            if not organisation:
                found.append(server["name"])
            organisation = True
        elif how == "browser" and server["name"] not in found:
            found.append(server["name"])
    return found


def otherwise(servers: list[ServerStatus]) -> list[str]:
    """What is to be done first about servers that no sign-in helps now, each once."""
    needs = {server["name"]: server["sign_in"] for server in servers if "sign_in" in server}
    wrong = {name: need["detail"] for name, need in needs.items() if need["how"] == "config"}
    found = [f"{name}: {detail}; correct oauth of its entry" for name, detail in wrong.items()]
    if any(need["how"] == "vault" for need in needs.values()):
        found.append("the vault is locked, and with it what was signed in to; open it: mcphub vault unlock")
    return found


def _sign_in(client: ControlClient, name: str, *, browser: bool, as_json: bool) -> bool:
    """Whether somebody is signed in now."""
    from mcphub.cli.pasting import Pasting

    pasting: Pasting | None = None
    ended: LoginReport | None = None
    reports = client.login(name)
    try:
        for report in reports:
            if as_json:
                print(output.json_text(report, compact=True), flush=True)
            if report["state"] == "waiting":
                opened = _show(report, browser=browser, as_json=as_json)
                if browser and not opened and not _terminal():
                    ended = _nowhere(name, report["how"])
                    if as_json:
                        print(output.json_text(ended, compact=True), flush=True)
                    break
                if not browser or _terminal():
                    pasting = Pasting(lambda text: _paste(client, name, text))
                    pasting.start()
            ended = report
    except KeyboardInterrupt:
        output.complain(f"cancelled the sign-in to {name}; nothing has changed")
        raise
    finally:
        reports.close()  # which cancels what is under way
        if pasting is not None:
            pasting.stop()
    if ended is None or ended["state"] not in ("done", "failed", "superseded"):
        raise ControlError(f"cannot sign in to {name}: the daemon has stopped")
    if ended["state"] == "done":
        if not as_json:
            where = ended.get("detail") or ("signed in" + (" at the organisation" * (ended["how"] == "idp_login")))
            print(output.line(f"{name}: {where}"))
        return True
    reason = f" ({ended['reason']})" if "reason" in ended else ""
    again = "; try again later" if ended.get("retry") else ""
    output.complain(f"cannot sign in to {name}: {ended.get('detail', '')}{reason}{again}")
    return False


def _show(report: LoginReport, *, browser: bool, as_json: bool) -> bool:
    """Say where to go, and open it where that is wanted; whether a browser has it."""
    from mcphub.cli.browser import BrowserUnavailable, checked, open_browser

    url = checked(report["url"])
    out = sys.stderr if as_json else sys.stdout

    def say(text: str) -> None:
        if out is not None:
            print(text, file=out, flush=True)

    say(output.line(f"{report['name']}: the sign-in is at {report['host']} ({_KNOWN_AS.get(report['client'], '')})"))
    if browser:
        say("opening a browser; if none opens, go to:")
    else:
        say("open this address in any browser:")
    say(f"  {url}")
    opened = False
    if browser:
        try:
            open_browser(url, os.environ)
            opened = True
        except BrowserUnavailable as error:
            output.complain(str(error))
    if not opened or _terminal():
        say("then wait, or paste here the address that your browser ended at:")
    return opened


def _nowhere(name: str, how: str) -> LoginReport:
    """How a sign-in ends that nobody can go to."""
    return {
        "name": name,
        "state": "failed",
        "how": how,
        "detail": "no browser could be opened, and there is no terminal to paste an address into; with --no-browser "
        "one is read from stdin",
        "reason": "browser_unavailable",
        "http_status": 0,
        "oauth_error": "",
        "retry": False,
    }


#: Who mcphub is there, by `client` of the report.
_KNOWN_AS = {
    "config": "by the client id of its entry",
    "cimd": "by mcphub's metadata document",
    "dcr": "mcphub registered itself there",
}


def _terminal() -> bool:
    from mcphub.cli.hidden_input import on_terminal

    return on_terminal()


def _paste(client: ControlClient, name: str, text: str) -> None:
    try:
        client.paste(name, text)
    except ControlError as error:
        output.complain(str(error))
