"""Owns the one peer that can be installed beside the gateways: tooner, a compiled proxy, from its npm package.

It must not be needed: where npm or the package cannot be had, goal 6 says so and the rest runs.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from .running import say
from .wire import BenchError

PACKAGE = "@chaindead/tooner_linux_amd64"
VERSION = "0.2.6"
INSTALL_SECONDS = 120.0


def cache_folder() -> Path:
    """Where peers are kept between runs: $MCPHUB_BENCH_CACHE, else `mcphub-bench` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MCPHUB_BENCH_CACHE") or Path(cache) / "mcphub-bench")


def tooner(install: bool) -> Path:
    """The program; installed into the cache folder first, if INSTALL. Raises BenchError with the cause."""
    folder = cache_folder() / "npm"
    program = folder / "node_modules" / PACKAGE / "tooner"
    if program.exists():
        return program
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise BenchError("tooner is taken for Linux on x86-64 only")
    if not install:
        raise BenchError("tooner is not installed (run without --no-install)")
    folder.mkdir(parents=True, exist_ok=True)
    say(f"installing {PACKAGE}@{VERSION} into {folder}")
    argv = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder))
    try:
        done = subprocess.run(
            (*argv, f"{PACKAGE}@{VERSION}"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"cannot install tooner: {error}") from error
    if done.returncode != 0 or not program.exists():
        raise BenchError(f"cannot install tooner: npm ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    program.chmod(0o755)
    return program
