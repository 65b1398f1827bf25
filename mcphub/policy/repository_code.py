"""Owns which words of a command are code that lies in the repository itself, and so may change without being asked for.

It must not look at files, nor judge what the code does. What it does not know it does not judge: an empty answer is no
promise (case C182).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from .shell_text import command_behind, plain_commands, program_name, shell_text

#: Interpreters, each with those of its options that take a value in the next argument, and are no code themselves.
_INTERPRETERS = {
    "node": frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"}),
    "bun": frozenset({"-r", "--preload", "--cwd"}),
    "deno": frozenset({"-c", "--config", "--import-map"}),
    "tsx": frozenset[str](),
    "ts-node": frozenset({"-P", "--project", "-r", "--require"}),
    "python": frozenset({"-W", "-X"}),
    "pypy": frozenset({"-W", "-X"}),
    "ruby": frozenset({"-I", "-r"}),
    "perl": frozenset({"-I"}),
    "php": frozenset({"-c", "-d"}),
    "java": frozenset({"-cp", "-classpath", "--class-path"}),
    "dotnet": frozenset[str](),
    "sh": frozenset({"-o"}),
    "bash": frozenset({"-o", "-O", "--rcfile", "--init-file"}),
    "dash": frozenset({"-o"}),
    "zsh": frozenset({"-o"}),
    "ksh": frozenset({"-o"}),
    "fish": frozenset[str](),
}
#: Options that are themselves followed by a file of code.
_LOADS = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "--preload", "-jar", "-cp",
                    "-classpath", "--class-path", "--rcfile", "--init-file"})
#: What stands between an interpreter and its file.
_VERBS = {"bun": ("run",), "deno": ("run",), "dotnet": ("exec",)}
#: Options whose code stands in the entry itself.
_INLINE = frozenset({"-c", "-e", "--eval", "-p", "--print", "-E"})
#: Programs that run what files of the directory say, whatever their arguments; "" = without any of these words too.
_BUILDERS: dict[str, frozenset[str]] = {
    "npm": frozenset({"run", "run-script", "start", "test", "restart"}),
    "pnpm": frozenset({"run", "start", "test", "exec"}),
    "yarn": frozenset({"run", "start", "test", "exec", "node"}),
    "bun": frozenset({"start"}),
    "uv": frozenset({"run"}),
    "poetry": frozenset({"run"}),
    "pdm": frozenset({"run"}),
    "hatch": frozenset({"run"}),
    "pipenv": frozenset({"run"}),
    "cargo": frozenset({"run", "r"}),
    "go": frozenset({"run"}),
    "dotnet": frozenset({"run"}),
    "deno": frozenset({"task"}),
    "bundle": frozenset({"exec"}),
    "make": frozenset({""}),
    "gmake": frozenset({""}),
    "just": frozenset({""}),
    "task": frozenset({""}),
    "rake": frozenset({""}),
    "gradle": frozenset({""}),
    "mvn": frozenset({""}),
    "docker-compose": frozenset({"run", "up"}),
}
_PYTHON = re.compile(r"(python|pypy)[0-9.]*")


def repository_code(command: Sequence[str], cwd: str, directory: str) -> tuple[str, ...]:
    """What of this command is code of the repository at `directory`, as it is written; it starts in `cwd`. Both are
    absolute paths. A text for a shell is looked through as far as it is plain."""
    if text := shell_text(command):
        found = [one for words in plain_commands(text) for one in repository_code(words, cwd, directory)]
        return tuple(dict.fromkeys(found))
    words = command_behind(command)
    if not words:
        return ()
    if "/" in words[0] and _inside(words[0], cwd, directory):
        return (words[0],)
    return tuple(dict.fromkeys(_arguments(words, cwd, directory)))


def _arguments(words: list[str], cwd: str, directory: str) -> list[str]:
    program, rest = program_name(words[0]), words[1:]
    program = match[1] if (match := _PYTHON.fullmatch(program)) else program
    verb = rest[0] if rest else ""
    within = _inside(".", cwd, directory)
    values = _INTERPRETERS.get(program)
    if program in _BUILDERS and within and _BUILDERS[program] & {verb, ""}:
        return [" ".join([program, *([verb] if verb and not verb.startswith("-") else [])])]
    if verb in _VERBS.get(program, ()):
        rest = rest[1:]
    if program in ("npx", "bunx", "pnpx", "uvx", "pipx", "source", "."):
        return [word for word in rest if _path(word) and _inside(word.removeprefix("file:"), cwd, directory)]
    if values is None:
        return []
    found: list[str] = []
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word == "-m" or (word.startswith("-m") and program in ("python", "pypy") and not word.startswith("--")):
            module = word[2:] or next(iter(rest), "")
            return [*found, f"-m {module}"] if within and program in ("python", "pypy") else found
        if word in _INLINE and word not in values:
            return found
        if option in _LOADS:
            loaded = value if equals else rest.pop(0) if rest else ""
            found += [one for one in loaded.split(":") if one and _path(one) and _inside(one, cwd, directory)]
            if option == "-jar":
                return found
        elif word in values:
            rest[:1] = []
        elif word == "--":
            continue
        elif not word.startswith("-"):
            return [*found, word] if "://" not in word and _inside(word, cwd, directory) else found
    return found


def _path(word: str) -> bool:
    return word.startswith(("./", "../", "/", "file:")) or word in (".", "..") or bool(
        re.fullmatch(r"[^-][^:]*\.(?:[cm]?[jt]sx?|py|rb|pl|sh|jar|whl)", word)
    )


def _inside(path: str, cwd: str, directory: str) -> bool:
    whole = posixpath.normpath(posixpath.join(cwd, path))
    return directory != "" and (whole == directory or whole.startswith(directory.rstrip("/") + "/"))
