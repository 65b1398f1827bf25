"""Owns which part of a command fetches code that may be another the next time: packages and images without a version.

It must not know what an entry is, nor whether such a command may run. It reads the argument list as the program would;
in a text for a shell it sees what is plain (shell_text.py). What it does not know it does not judge: an empty answer is
no promise (case C182).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .shell_text import command_behind, plain_commands, program_name, shell_text

#: Options that take a value in the next argument, by program; those that name the package themselves are apart.
_NODE_VALUES = frozenset({"-c", "--call", "--workspace", "-w", "--prefix", "--registry", "--cache", "--userconfig"})
_NODE_PACKAGES = frozenset({"-p", "--package"})
_UV_VALUES = frozenset(
    {
        "-p", "--python", "--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links",
        "--index-strategy", "--keyring-provider", "-P", "--refresh-package", "-C", "--config-setting", "--cache-dir",
        "--link-mode", "--exclude-newer", "--env-file", "--directory", "--project", "--config-file", "--color",
        "-c", "--constraints", "-b", "--build-constraints", "--overrides", "--resolution", "--prerelease",
    }
)
_UV_PACKAGES = frozenset({"--from", "-w", "--with", "--with-editable", "--with-requirements"})
_PIPX_VALUES = frozenset({"--python", "--pip-args", "-i", "--index-url"})
_PIPX_PACKAGES = frozenset({"--spec"})
_IMAGE_SWITCHES = frozenset(
    {
        "-i", "-t", "-it", "-ti", "-d", "-P", "--rm", "--init", "--interactive", "--tty", "--detach", "--privileged",
        "--read-only", "--publish-all", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "-q", "--quiet",
        "--disable-content-trust", "--help", "--replace", "--tls-verify",
    }
)
_NODE_PINNED = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_PYTHON_PINNED = re.compile(r"===?\s*[^\s*,;]+")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def unpinned(command: Sequence[str]) -> tuple[str, ...]:
    """The packages and images of this command that may change without anybody being asked, as they are written.

    `command` is the program and its arguments.
    """
    if text := shell_text(command):
        return tuple(dict.fromkeys(one for words in plain_commands(text) for one in unpinned(words)))
    command = command_behind(command)
    if not command:
        return ()
    program, arguments = program_name(command[0]), list(command[1:])
    words = [program, *arguments[:2]]
    for start, reader in _READERS:
        if tuple(words[: len(start)]) == start:
            return reader(arguments[len(start) - 1 :])
    return ()


def _node(arguments: Sequence[str]) -> tuple[str, ...]:
    named, first = _packages(arguments, _NODE_VALUES, _NODE_PACKAGES)
    return tuple(one for one in (named or first) if not _node_pinned(one))


def _python(arguments: Sequence[str]) -> tuple[str, ...]:
    named, first = _packages(arguments, _UV_VALUES, _UV_PACKAGES)
    main = any(_option(argument) == "--from" for argument in arguments)
    return tuple(one for one in (named if main else [*named, *first]) if not _python_pinned(one))


def _pipx(arguments: Sequence[str]) -> tuple[str, ...]:
    named, first = _packages(arguments, _PIPX_VALUES, _PIPX_PACKAGES)
    return tuple(one for one in (named or first) if not _python_pinned(one))


def _image(arguments: Sequence[str]) -> tuple[str, ...]:
    """The image is the first argument that is no option and no option's value."""
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if not argument.startswith("-"):
            return () if _DIGEST.search(argument) else (argument,)
        attached = "=" in argument or (not argument.startswith("--") and len(argument) > 2)
        position += 1 if argument in _IMAGE_SWITCHES or attached else 2
    return ()


def _packages(
    arguments: Sequence[str], values: frozenset[str], packages: frozenset[str]
) -> tuple[list[str], list[str]]:
    """The packages that options name, and the first argument that is none (a list of one or none)."""
    named: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        following = arguments[position + 1 : position + 2]
        option, _, value = argument.partition("=")
        if argument == "--":
            return named, list(following)
        if not argument.startswith("-"):
            return named, [argument]
        if option in packages:
            named += [value] if value else following
        position += 2 if option in packages | values and not value else 1
    return named, []


def _option(argument: str) -> str:
    return argument.partition("=")[0]


def _local(package: str) -> bool:
    return package.startswith((".", "/", "~", "file:"))


def _node_pinned(package: str) -> bool:
    """`name@1.2.3`, a commit of a repository, or what lies on this machine."""
    if _local(package):
        return True
    if "://" in package or package.startswith(("git+", "github:", "gitlab:", "bitbucket:", "gist:")):
        return _COMMIT.fullmatch(package.partition("#")[2]) is not None
    _, at, version = package[1:].partition("@")
    return bool(at) and _NODE_PINNED.fullmatch(version.rpartition("@")[2]) is not None


def _python_pinned(package: str) -> bool:
    """`name==1.2.3`, uv's `name@1.2.3`, a commit of a repository, or what lies on this machine."""
    if _local(package):
        return True
    if "://" in package or package.startswith("git+"):
        return _COMMIT.fullmatch(package.partition("#")[0].rpartition("@")[2]) is not None
    requirement = package.partition(";")[0].strip()
    if match := _PYTHON_PINNED.search(requirement):
        return match.end() == len(requirement)
    _, at, version = requirement.partition("@")
    return bool(at) and re.fullmatch(r"\s*v?\d+(?:\.\d+)+[0-9A-Za-z.+-]*", version) is not None


_READERS: tuple[tuple[tuple[str, ...], Callable[[Sequence[str]], tuple[str, ...]]], ...] = (
    (("npx",), _node),
    (("bunx",), _node),
    (("pnpx",), _node),
    (("npm", "exec"), _node),
    (("npm", "x"), _node),
    (("pnpm", "dlx"), _node),
    (("yarn", "dlx"), _node),
    (("bun", "x"), _node),
    (("uvx",), _python),
    (("uv", "tool", "run"), _python),
    (("pipx", "run"), _pipx),
    (("docker", "run"), _image),
    (("podman", "run"), _image),
    (("docker", "container", "run"), _image),
    (("podman", "container", "run"), _image),
)
