"""Owns the peers that can be installed beside the gateways, from npm and PyPI, each in the version that is compared.

It must not be needed: where a registry or a package cannot be had, its rows are not measured and the rest runs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .running import say
from .targets import BASE_PYTHON
from .wire import BenchError

#: A compiled proxy, in a package of its own.
PACKAGE = "@chaindead/tooner_linux_amd64"
VERSION = "0.2.6"
#: Gateways that serve HTTP; npm packages in one folder, the one of PyPI in an environment of its own.
HTTP_PACKAGES = {"mcp-proxy": "6.7.19", "supergateway": "4.0.0", "mcp-hub": "4.2.1"}
MCP_PROXY = "mcp-proxy==0.13.0"
INSTALL_SECONDS = 180.0


def cache_folder() -> Path:
    """Where peers are kept between runs: $MCPHUB_BENCH_CACHE, else `mcphub-bench` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MCPHUB_BENCH_CACHE") or Path(cache) / "mcphub-bench")


def installed(what: str, made: Sequence[Path], argv: Sequence[Sequence[str]], install: bool) -> None:
    """See to it that MADE is there, by the commands ARGV, if INSTALL. Raises BenchError with the cause."""
    if all(path.exists() for path in made):
        return
    if not install:
        raise BenchError(f"{what} is not installed (run without --no-install)")
    say(f"installing {what} into {cache_folder()}")
    for command in argv:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BenchError(f"cannot install {what}: {error}") from error
        if done.returncode != 0:
            words = done.stderr.strip()[-200:]
            raise BenchError(f"cannot install {what}: {Path(command[0]).name} ended with {done.returncode}: {words}")
    if missing := [path for path in made if not path.exists()]:
        raise BenchError(f"cannot install {what}: there is no {missing[0].name} in it")


def _npm(folder: Path, packages: Sequence[str]) -> tuple[str, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder))
    return ("npm", "install", *options, *packages)


def tooner(install: bool) -> Path:
    """The program; installed into the cache folder first, if INSTALL. Raises BenchError with the cause."""
    folder = cache_folder() / "npm"
    program = folder / "node_modules" / PACKAGE / "tooner"
    if not program.exists() and (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise BenchError("tooner is taken for Linux on x86-64 only")
    argv = [_npm(folder, [f"{PACKAGE}@{VERSION}"])] if install else []
    installed(f"{PACKAGE}@{VERSION}", [program], argv, install)
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    return program


def node_gateways(install: bool) -> Path:
    """The folder of modules with all of HTTP_PACKAGES; installed first, if INSTALL. Raises BenchError."""
    folder = cache_folder() / "http"
    modules = folder / "node_modules"
    wanted = [f"{name}@{version}" for name, version in HTTP_PACKAGES.items()]
    if shutil.which("node") is None:
        raise BenchError("there is no node to run them with")
    argv = [_npm(folder, wanted)] if install else []
    installed(", ".join(wanted), [modules / name / "package.json" for name in HTTP_PACKAGES], argv, install)
    return modules


def mcp_proxy(install: bool) -> Path:
    """The program of MCP_PROXY, in an environment of its own; installed first, if INSTALL. Raises BenchError."""
    folder = cache_folder() / MCP_PROXY.replace("==", "-")
    program = folder / "bin" / "mcp-proxy"
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", MCP_PROXY)
    installed(MCP_PROXY, [program], [(BASE_PYTHON, "-m", "venv", str(folder)), pip], install)
    return program
