"""The verb env."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Place


def file(home: Place) -> Path:
    return Path(home.root, "config", "mcphub", "environment")


def test_set_list_unset(home: Place) -> None:
    """From stdin, from the environment or from the command line; only names are ever shown."""
    home.environment.update(B="tok-2", C="tok-3")
    done = [
        home.run("env", "set", "A", stdin=b"tok-1\n"),
        home.run("env", "set", "--from-env", "B", "C"),
        home.run("env", "set", "PATH=/bin:/usr/bin", "D=x y"),
        home.run("env", "list"),
        home.run("env", "list", "--json"),
        home.run("env", "unset", "A", "D"),
        home.run("env", "set", "B", "--json", stdin=b" tok-4\n\n"),
    ]
    assert [one[1:] for one in done] == [("", 0)] * len(done)
    assert done[0][0] == f"A: set in {file(home)}\n"
    assert done[3][0] == "A\nB\nC\nD\nPATH\n"
    assert json.loads(done[4][0]) == {"path": str(file(home)), "names": ["A", "B", "C", "D", "PATH"]}
    assert done[5][0] == f"A, D: taken out in {file(home)}\n"
    assert file(home).read_text() == 'B=" tok-4\\n"\nC=tok-3\nPATH=/bin:/usr/bin\n'
    assert file(home).stat().st_mode & 0o777 == 0o600
    assert "tok-" not in "".join(out for out, _, _ in done)


def test_the_file_is_closed_to_others(home: Place) -> None:
    """What a person wrote stays, but not a mode that lets others read it."""
    file(home).parent.mkdir(parents=True)
    file(home).write_text("# mine\nexport A=1\nbroken\n")
    file(home).chmod(0o644)
    assert home.run("env", "set", "A=2")[1:] == ("", 0)
    assert file(home).read_text() == "# mine\nexport A=2\nbroken\n"
    assert file(home).stat().st_mode & 0o777 == 0o600
    out, err, status = home.run("env", "list")
    assert (out, status) == ("A\n", 0)
    assert "environment:3: expected NAME=VALUE" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "--from-env", "UNSET_HERE"], "your environment has no variable UNSET_HERE"),
        (["unset", "A"], "has no such variable"),
        (["set", "A=tok-1\udcff"], "the value is not Unicode text"),
    ],
)
def test_what_is_refused(home: Place, arguments: list[str], message: str) -> None:
    """Nothing is written, and no value is in the message."""
    out, err, status = home.run("env", *arguments)
    assert (out, status) == ("", 1)
    assert message in err
    assert "tok-" not in err
    assert not file(home).exists()


def test_asked_on_the_terminal(home: Place) -> None:
    """On a terminal the value is asked for, and not echoed."""
    with home.terminal("env", "set", "A") as terminal:
        terminal.until(b"A: ")
        terminal.type(b"tok-1\n")
        shown, status = terminal.end()
    assert status == 0
    assert b"tok-1" not in shown
    assert file(home).read_text() == "A=tok-1\n"


def test_where_programs_are_looked_for(home: Place) -> None:
    """C027: the login shell is asked when told to, and its directories are shown with the others from then on."""
    Path(home.root, "home", ".bash_profile").write_text("echo hello\nPATH=/h/.nvm/bin:$PATH\n")
    home.environment.update(SHELL="/bin/bash", PATH=f"/own/bin:{home.environment['PATH']}")
    before, complaint, status = home.run("env", "path")
    assert "/h/.nvm/bin" not in before
    assert "mcphub env path --refresh" in complaint
    assert status == 0
    shown, complaint, status = home.run("env", "path", "--refresh")
    assert (shown.splitlines()[0], complaint, status) == ("/own/bin", "", 0)
    assert "/h/.nvm/bin" in shown.splitlines()
    report = json.loads(home.run("env", "path", "--json")[0])
    assert report["login_path"].startswith("/h/.nvm/bin:")
    assert report["shell"] == "/bin/bash"


def test_what_is_not_absolute(home: Place) -> None:
    """Nothing is looked for there, and that is told."""
    assert home.run("env", "set", "PATH=relative:/bin:")[2] == 0
    shown, complaint, status = home.run("env", "path")
    assert (shown, status) == ("/bin\n", 0)
    assert "'relative' of PATH is left out" in complaint
    assert json.loads(home.run("env", "path", "--json")[0])["path"] == "/bin"


def test_a_profile_that_says_nothing(home: Place) -> None:
    """C027: why is said, the status is 1, and what was known before stays."""
    profile = Path(home.root, "home", ".bash_profile")
    home.environment.update(SHELL="/bin/bash")
    profile.write_text("PATH=/h/.nvm/bin:$PATH\n")
    assert home.run("env", "path", "--refresh")[2] == 0
    profile.write_text("exit 3\n")
    shown, complaint, status = home.run("env", "path", "--refresh")
    assert "/h/.nvm/bin" in shown.splitlines()
    assert "ended with status 3" in complaint
    assert status == 1


def test_what_cannot_be_kept_is_not_asked_for(home: Place) -> None:
    """Nobody types a secret for a file that cannot be written."""
    file(home).mkdir(parents=True)
    with home.terminal("env", "set", "A") as terminal:
        shown, status = terminal.end()
    assert shown.decode() == f"mcphub: cannot write {file(home)}: Is a directory\n"
    assert status == 1
