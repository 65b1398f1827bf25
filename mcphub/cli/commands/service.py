"""Owns the verb service: the daemon as a service of systemd or launchd, installed, taken away, looked at.

It must not start a daemon itself, nor wake one up by looking.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from mcphub.service.installation import File

DESCRIPTION = """\
Run the daemon as a service of yours: systemd --user on Linux, launchd on macOS. `install` writes the files of the
service with this very program in them, learns the PATH of your login shell, and starts it; a daemon that runs already
hands over to it, and agents behind `mcphub connect` go on. `uninstall` takes it away again. `status` says what is
installed, whether it is enabled and runs, and whose the running daemon is; it exits with 0 if the service is in use."""

ACTIONS = {
    "install": "write its files, and start it in place of a daemon that runs",
    "uninstall": "take it away again",
    "status": "what is installed, whether it is enabled and runs",
}

#: Seconds that a daemon which runs by hand may take to hand over.
PATIENCE = 60.0


def arguments(parser: argparse.ArgumentParser) -> None:
    from mcphub.cli.subverb import words_first
    from mcphub.cli.usage import add_actions

    add_actions(parser, ACTIONS)
    parser.add_argument("--force", action="store_true", help="overwrite or remove files that you have changed")
    parser.add_argument(
        "--on-demand",
        action="store_true",
        help="with install: start with the first agent, not at login (systemd only; not for agents over TCP)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(reorder=lambda words: words_first(words, ()))


def run(args: argparse.Namespace) -> int:
    from mcphub.cli import output
    from mcphub.cli.usage import UsageError

    if args.on_demand and args.action != "install":
        raise UsageError(f"cannot run service {args.action}: --on-demand is for install")
    report = {"install": _install, "uninstall": _uninstall, "status": _status}[args.action](args)
    ok = report.pop("ok")
    if args.json:
        print(output.json_text(report))
    else:
        print(_text(args.action, report), end="")
    return 0 if ok else 1


# --- install ----------------------------------------------------------------------------------------------------------


def _install(args: argparse.Namespace) -> dict[str, Any]:
    from mcphub.cli import output
    from mcphub.config.places import places
    from mcphub.errors import ConfigError
    from mcphub.service import installation, systemd_user

    where = places()
    mac = sys.platform == "darwin"
    absent = "" if mac else systemd_user.absent()
    if not mac and absent == systemd_user.NO_SYSTEMCTL:
        raise ConfigError(
            f"cannot install the service: {absent}. Nothing was written. `mcphub connect` starts the daemon by itself "
            "when the first agent comes; to run it under something else, let that run `mcphub serve`"
        )
    files = installation.look(os.environ, os.path.join(where.state_dir, "daemon.log"))
    if not args.force and (shown := installation.difference(files)) and sys.stderr is not None:
        sys.stderr.write(output.block(shown))
    written = installation.write(files, os.path.join(where.state_dir, ".service.lock"), force=args.force)
    notes = [note for note in (installation.short_lived(), _learn_path(where.login_path)) if note]
    report: dict[str, Any] = {"action": "install", "files": [f.path for f in files], "written": written, "notes": notes}
    if absent:
        notes.append(
            f"the service manager of this person does not answer: {absent}. The files are written; where it answers, "
            "run: " + " && ".join(" ".join(("systemctl", "--user", *words)) for words in _steps(args.on_demand))
        )
        return {**report, "started": False, "ok": False}
    report["handed_over"] = _start(files, args.on_demand, bool(written))
    if not mac and systemd_user.lingers() is False:
        notes.append(
            "it ends when you have logged out everywhere, with every server. To keep it, and start it with the system: "
            "loginctl enable-linger"
        )
    return {**report, "started": True, "ok": True}


def _steps(on_demand: bool) -> list[tuple[str, ...]]:
    """What is asked of systemctl, in order. The sockets come first: the daemon takes them over."""
    from mcphub.service.names import SERVICE_UNIT, SOCKET_UNIT

    steps: list[tuple[str, ...]] = [("daemon-reload",), ("enable", "--now", SOCKET_UNIT)]
    return steps if on_demand else [*steps, ("enable", "--now", SERVICE_UNIT)]


def _start(files: list[File], on_demand: bool, anew: bool) -> int | None:
    """Let a daemon that runs by hand end, and start the service in its place; returns the pid of that daemon. `anew`:
    its files are other ones now."""
    from mcphub.service import launchd_agent, systemd_user
    from mcphub.service.names import SERVICE_UNIT
    from mcphub.sessions.bridge import start_lock

    if sys.platform == "darwin":
        lock = start_lock()
        try:
            pid = _hand_over(launchd_agent.pid())
            launchd_agent.load(files[0].path)
        finally:
            os.close(lock)
        return pid
    first, *others = _steps(on_demand)
    systemd_user.ask(*first)
    lock = start_lock()  # bridges whose daemon ends wait here, and then find the sockets of the service
    try:
        pid = None
        own = int(systemd_user.show(SERVICE_UNIT).get("MainPID", "0") or 0)
        if _held():
            if own and anew:
                systemd_user.ask("try-restart", SERVICE_UNIT)
        else:
            pid = _hand_over(own)
            if own:
                systemd_user.ask("stop", SERVICE_UNIT)  # its sockets cannot be opened beneath it
        for step in others:
            systemd_user.ask(*step)
    finally:
        os.close(lock)
    return pid


def _held() -> bool:
    """Whether systemd holds the sockets already: looking whether a daemon answers would start one."""
    from mcphub.service import systemd_user
    from mcphub.service.names import SOCKET_UNIT

    return systemd_user.show(SOCKET_UNIT).get("ActiveState") == "active"


def _hand_over(own: int) -> int | None:
    """End a daemon that is not the service's (`own` is the pid of that one) so that its agents go on in the next."""
    from mcphub.cli.commands.stop import ended
    from mcphub.client import ControlClient
    from mcphub.errors import ConfigError, ControlError

    try:
        pid = ControlClient().status()["daemon"]["pid"]
        if pid == own:
            return None
        ControlClient().stop(restart=True)
    except ControlError as error:
        if error.status:
            raise
        return None
    if not ended(pid, PATIENCE):
        raise ConfigError(
            f"cannot start the service: the daemon that ran before (pid {pid}) is still shutting down after "
            f"{PATIENCE:g} s. Run `mcphub service install` again once it is gone"
        )
    return pid


def _learn_path(file: str) -> str:
    """Ask the login shell for its PATH, as `mcphub env path --refresh`; returns what to say of it."""
    from mcphub.config.login_refresh import refreshed
    from mcphub.store.login_path import login_path_file

    return login_path_file(file).change(lambda before: refreshed(before, os.environ)).error


# --- uninstall --------------------------------------------------------------------------------------------------------


def _uninstall(args: argparse.Namespace) -> dict[str, Any]:
    from mcphub.config.places import places
    from mcphub.service import installation, launchd_agent, systemd_user
    from mcphub.service.names import SERVICE_UNIT, SOCKET_UNIT
    from mcphub.sessions.bridge import start_lock

    files = installation.look(os.environ, os.path.join(places().state_dir, "daemon.log"))
    mac = sys.platform == "darwin"
    absent = "" if mac else systemd_user.absent()
    notes = []
    theirs = [file for file in files if file.state == "changed"]
    if theirs and not args.force:
        installation.remove(files)  # says why not
    lock = start_lock()  # bridges of the daemon that ends here start the next one once all is gone
    try:
        if mac:
            launchd_agent.unload()
        elif not absent:
            known = [unit for unit in (SOCKET_UNIT, SERVICE_UNIT) if systemd_user.show(unit).get("FragmentPath")]
            if known:
                systemd_user.ask("disable", "--now", *known)
        gone = installation.remove(files, force=args.force)
        if not mac and not absent:
            systemd_user.ask("daemon-reload")
    finally:
        os.close(lock)
    if absent and gone:
        notes.append(
            f"the service manager of this person does not answer: {absent}. Where it does, run: systemctl --user "
            "daemon-reload"
        )
    return {"action": "uninstall", "removed": gone, "notes": notes, "ok": True}


# --- status -----------------------------------------------------------------------------------------------------------


def _status(args: argparse.Namespace) -> dict[str, Any]:
    from mcphub.config.places import places
    from mcphub.service import installation, launchd_agent, systemd_user
    from mcphub.service import places as service_places
    from mcphub.service.names import LABEL, SERVICE_UNIT, SOCKET_UNIT

    files = installation.look(os.environ, os.path.join(places().state_dir, "daemon.log"))
    notes = []
    units: dict[str, dict[str, Any]] = {}
    pid = 0
    held = False
    if sys.platform == "darwin":
        manager, loaded, pid = "launchd", launchd_agent.loaded(), launchd_agent.pid()
        units[LABEL] = {"enabled": loaded, "active": bool(pid), "path": files[0].path, "result": "", "status": ""}
    else:
        absent = systemd_user.absent()
        manager = "" if absent else "systemd"
        if absent:
            notes.append(f"the service manager of this person does not answer: {absent}")
        for name in (SERVICE_UNIT, SOCKET_UNIT) if manager else ():
            known = systemd_user.show(name)
            units[name] = {
                "enabled": known.get("UnitFileState", "") in ("enabled", "enabled-runtime", "static", "linked"),
                "active": known.get("ActiveState", ""),
                "path": known.get("FragmentPath", ""),
                "drop_ins": known.get("DropInPaths", "").split(),
                "result": known.get("Result", ""),
                "status": known.get("StatusText", ""),
            }
            if known.get("NeedDaemonReload") == "yes":
                notes.append(f"{name} was changed since it was loaded: systemctl --user daemon-reload")
            if known.get("LoadState") == "masked":
                notes.append(f"{name} is masked: systemctl --user unmask {name}")
            if known.get("ActiveState") == "failed":
                notes.append(f"{name} has failed ({known.get('Result', '')}): journalctl --user -u {name}")
            if name == SERVICE_UNIT:
                pid = int(known.get("MainPID", "0") or 0)
            else:
                held = known.get("ActiveState") == "active"
    for file in files:
        if file.state == "outdated":
            notes.append(f"{file.path} was written for another program or version: mcphub service install")
        elif file.state == "changed":
            notes.append(f"{file.path} was changed by hand")
    running = pid or (None if held else _running())
    if running and running != pid:
        notes.append(f"the daemon that runs (pid {running}) is not the service's: `mcphub service install` hands over")
    active = bool(pid) or held
    installed = service_places.installed()
    if not installed:
        notes.append("it is not installed: mcphub service install")
    return {
        "action": "status",
        "manager": manager,
        "installed": bool(installed),
        "files": [{"path": file.path, "state": file.state} for file in files],
        "units": units,
        "active": active,
        "listening": held,
        "service_pid": pid or None,
        "daemon_pid": running or None,
        "daemon_is_service": bool(running) and running == pid,
        "linger": None if sys.platform == "darwin" or not manager else systemd_user.lingers(),
        "notes": notes,
        "ok": bool(installed) and active,
    }


def _running() -> int | None:
    """The pid of a daemon that answers. Not to be asked while a service manager holds its sockets."""
    from mcphub.client import ControlClient
    from mcphub.errors import ControlError

    try:
        return ControlClient().status()["daemon"]["pid"]
    except ControlError:
        return None


# --- what is printed --------------------------------------------------------------------------------------------------


def _text(action: str, report: dict[str, Any]) -> str:
    from mcphub.cli import output

    lines: list[str] = []
    if action == "install":
        lines += [f"written: {path}" for path in report["written"]] or ["its files are as they should be"]
        if report.get("handed_over"):
            lines.append(f"the daemon that ran (pid {report['handed_over']}) has handed over to it")
        lines += ["the service is installed and started"] if report["started"] else []
    elif action == "uninstall":
        lines += [f"removed: {path}" for path in report["removed"]] or ["the service was not installed"]
    else:
        lines += [f"{file['path']}: {file['state']}" for file in report["files"]]
        for name, unit in report["units"].items():
            active = unit["active"] if isinstance(unit["active"], str) else ("active" if unit["active"] else "inactive")
            enabled = "enabled" if unit["enabled"] else "not enabled"
            status = f": {unit['status']}" if unit["status"] and active == "active" else ""
            lines.append(f"{name}: {enabled}, {active or 'unknown'}{status}")
            if unit["path"] and unit["path"] not in [file["path"] for file in report["files"]]:
                lines.append(f"  from {unit['path']}")
            lines += [f"  with {path}" for path in unit.get("drop_ins", ())]
        if report["daemon_pid"]:
            whose = "the service's" if report["daemon_is_service"] else "not the service's"
            lines.append(f"daemon: pid {report['daemon_pid']}, {whose}")
        elif report["listening"]:
            lines.append("daemon: none runs; it starts when somebody connects")
        else:
            lines.append("daemon: none runs")
        if report["linger"] is not None:
            lines.append(f"without a login: {'runs on' if report['linger'] else 'ends'} (loginctl enable-linger)")
    text = "".join(output.line(line) + "\n" for line in lines)
    for note in report["notes"]:
        output.complain(note)
    return text
