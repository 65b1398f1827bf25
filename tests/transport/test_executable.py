from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mcphub.errors import TransportError
from mcphub.transport.executable import (
    Access,
    access,
    explain_refusal,
    find_executable,
    leads_to,
    looks_like_windows,
    shebang,
    shown_path,
)

FILES = {
    "/usr/bin/python3": Access.EXECUTABLE,
    "/h/.nvm/bin/npx": Access.EXECUTABLE,
    "/opt/my tools/srv": Access.EXECUTABLE,
    "/work/run.sh": Access.EXECUTABLE,
    "/work/npx": Access.EXECUTABLE,
    "/usr/bin/data": Access.NOT_EXECUTABLE,
    "/usr/bin/node": Access.NOT_EXECUTABLE,
    "/h/.nvm/bin/node": Access.EXECUTABLE,
    "/usr/bin/dir": Access.DIRECTORY,
    "/usr/bin": Access.DIRECTORY,
}


def look(path: str) -> Access:
    return FILES.get(path, Access.MISSING)


@pytest.mark.parametrize(
    ("command", "path", "found"),
    [
        ("python3", "/bin:/usr/bin", "/usr/bin/python3"),
        ("npx", "/usr/bin:/h/.nvm/bin", "/h/.nvm/bin/npx"),
        ("/h/.nvm/bin/npx", "/usr/bin", "/h/.nvm/bin/npx"),
        ("/opt/my tools/srv", None, "/opt/my tools/srv"),
        ("./run.sh", None, "/work/run.sh"),
        ("../work/run.sh", "", "/work/run.sh"),
        ("node", "/usr/bin:/h/.nvm/bin", "/h/.nvm/bin/node"),
        ("python3", ":.:/usr/bin", "/usr/bin/python3"),
    ],
)
def test_finds_what_a_shell_would_find(command: str, path: str | None, found: str) -> None:
    """C027: the program's own PATH is searched in order; a command with a slash is a file."""
    assert find_executable(command, path, "/work", look) == found


@pytest.mark.parametrize(
    ("command", "path", "words"),
    [
        ("npx", "/usr/bin:/bin", ["'npx'", "not found", "/usr/bin:/bin", "absolute path", "environment file"]),
        ("npx", None, ["PATH, which is empty"]),
        ("npx", ".:", ["PATH, which is empty"]),
        ("/nowhere/srv", "/usr/bin", ["/nowhere/srv does not exist", "install"]),
        ("./nothing", "/usr/bin", ["/work/nothing (relative to the working directory) does not exist"]),
        ("data", "/usr/bin", ["/usr/bin/data is not executable", "chmod"]),
        ("/usr/bin", "/usr/bin", ["is a directory"]),
        ("dir", "/usr/bin", ["not found"]),
        ("~/bin/srv", "/usr/bin", ["${HOME}"]),
        ("npx -y foo", "/usr/bin", ["'npx'", '"args"']),
        ("npx ", "/usr/bin", ["'npx '", "blank"]),
        ("", "/usr/bin", ["empty"]),
        ("a\0b", "/usr/bin", ["NUL"]),
    ],
)
def test_says_what_was_sought_where_and_what_to_do(command: str, path: str | None, words: list[str]) -> None:
    """C027: the error names the command, the PATH that was searched, and how to fix it."""
    with pytest.raises(TransportError) as caught:
        find_executable(command, path, "/work", look)
    assert caught.value.kind == "spawn"
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["cmd", "CMD.exe", "npx.cmd", "C:\\Tools\\srv.exe", "D:/srv", ".\\x", "powershell"])
def test_names_a_windows_entry_as_such(command: str) -> None:
    """C042: a command line written for Windows fails plainly, with that guess."""
    assert looks_like_windows(command)
    with pytest.raises(TransportError, match=r"cannot start command.*(Windows-only entry\?|without cmd /c)"):
        find_executable(command, "/usr/bin", "/work", look)


@pytest.mark.parametrize("command", ["cmdline", "npx", "exe", "a:b", "/opt/my tools/srv"])
def test_ordinary_names_are_no_windows_entries(command: str) -> None:
    """C042: the guess is not made of ordinary names."""
    assert not looks_like_windows(command)


def test_access_asks_the_file_system(tmp_path: Path) -> None:
    """A program needs an x bit, also for root; links are followed; a directory is none."""
    plain, program, link, broken = (tmp_path / name for name in ("plain", "program", "link", "broken"))
    plain.write_text("x")
    program.write_text("x")
    program.chmod(0o755)
    link.symlink_to(program)
    broken.symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "fifo", 0o777)
    found = [access(str(path)) for path in (plain, program, link, broken, tmp_path, tmp_path / "fifo", tmp_path / "\0")]
    assert found == [
        Access.NOT_EXECUTABLE,
        Access.EXECUTABLE,
        Access.EXECUTABLE,
        Access.MISSING,
        Access.DIRECTORY,
        Access.NOT_EXECUTABLE,
        Access.MISSING,
    ]


@pytest.mark.parametrize(
    ("stage", "number", "head", "words"),
    [
        ("exec", errno.ENOENT, b"#!/opt/node/bin/node --x\nrest", ["'/opt/node/bin/node'", "#! line", "install it"]),
        ("exec", errno.ENOENT, b"#!/usr/bin/python3\r\n", ["Windows line ends"]),
        ("exec", errno.ENOENT, b"\x7fELF", ["loader", "musl"]),
        ("exec", errno.ENOEXEC, b"echo", ["begins with #!"]),
        ("exec", errno.EACCES, b"#!/usr/bin", ["noexec"]),
        ("exec", errno.E2BIG, b"", ["E2BIG", "123 bytes"]),
        ("exec", errno.ETXTBSY, b"", ["busy"]),
        ("cwd", errno.ENOENT, b"", ["working directory '/gone'", "create"]),
        ("fork", errno.EAGAIN, b"", ["too many processes"]),
    ],
)
def test_explains_why_the_system_refused(stage: str, number: int, head: bytes, words: list[str]) -> None:
    """C027: an errno alone misleads (a script whose interpreter is missing is `No such file`): say which file."""
    text = explain_refusal(stage, number, "/h/.nvm/bin/npx", "/gone", 123, head, look)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("head", "interpreter"),
    [(b"#!/bin/sh\n", "/bin/sh"), (b"#! /usr/bin/env node\nx", "/usr/bin/env"), (b"#!\t/bin/x\ty", "/bin/x"), (b"", "")]
    + [(b"#!/bin/sh\r\n", "/bin/sh\r"), (b"#!/b\xff\n", "/b\\xff"), (b"ELF", "")],
)
def test_reads_the_interpreter_line(head: bytes, interpreter: str) -> None:
    """The interpreter of a script is the first word after #!, with a stray carriage return kept visible."""
    assert shebang(head) == interpreter


def test_what_a_command_leads_to(tmp_path: Path) -> None:
    """The path that is found, and the file behind its links; nothing where nothing can be executed."""
    program, link = tmp_path / "program", tmp_path / "bin" / "link"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    link.parent.mkdir()
    link.symlink_to(program)
    real = os.path.realpath(program)
    assert leads_to("link", str(link.parent), "/") == (str(link), real)
    assert leads_to(real, None, "/") == (real,)
    assert leads_to("../program", None, str(link.parent)) == tuple(dict.fromkeys((str(program), real)))
    assert leads_to("link", "/nowhere", "/") == ()
    assert leads_to("", None, "/") == ()


@pytest.mark.parametrize(
    ("path", "command", "shown", "cwd", "shown_cwd", "printed"),
    [
        ("/usr/bin/x", "x", "x", "/w", "", "/usr/bin/x"),
        ("/usr/bin/tok-5", "tok-5", "${K}", "/w", "", "/usr/bin/${K}"),
        ("/a/tok-5", "/a//tok-5", "/a//${K}", "/w", "", "/a//${K}"),
        ("/w/run", "./run", "./run", "/w", "", "/w/run"),
        ("/tok-5/run", "./run", "./run", "/tok-5", "/${K}", "/${K}/./run"),
        ("/w/tok-5", "./tok-5", "./${K}", "/w", "", "/w/./${K}"),
        ("/a/b", "/a/b", "/a/b", "/tok-5", "/${K}", "/a/b"),
    ],
)
def test_what_is_printed_of_a_path(path: str, command: str, shown: str, cwd: str, shown_cwd: str, printed: str) -> None:
    """C025: a path that a variable is part of is printed as the file has it."""
    assert shown_path(path, command, shown, cwd, shown_cwd) == printed


@pytest.mark.parametrize("command", ["/gone/tok-5", "tok-5", "tok-5 --flag", "./tok-5", "/work/run.txt/tok-5"])
def test_the_value_of_a_variable_is_in_no_message(command: str) -> None:
    """C025: the reason names the command as the file has it, wherever it was looked for."""
    with pytest.raises(TransportError) as error:
        shown = command.replace("tok-5", "${K}")
        find_executable(command, "/usr/bin", "/work/tok-5", look, shown=shown, shown_cwd="/work/${K}")
    assert "tok-5" not in str(error.value)
    assert repr(shown) in str(error.value)
