"""Owns what tells whether a program is another one than before: the files that it consists of, where they are named.

It must not know states, nor start anything. These are the file that the command leads to and arguments that are
scripts; what an interpreter or a package runner loads by itself is not seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from mcphub.config.environment import child_environment
from mcphub.spec import StdioSpec
from mcphub.transport.executable import leads_to

#: Other arguments are data, which the server, or anybody, may write all the time.
_SCRIPTS = (
    ".py", ".pyz", ".whl", ".js", ".mjs", ".cjs", ".ts", ".mts", ".jar", ".rb", ".sh", ".php", ".pl", ".wasm", ".dll",
)  # fmt: skip
_MOST = 32

#: By path: device, inode, size, time of change in ns.
Stamps = Mapping[str, tuple[int, int, int, int]]


def stamps(spec: StdioSpec, environment: Mapping[str, str]) -> Stamps:
    """The files as they are now; without what is not there. Looks into the file system, and may wait for it."""
    env = child_environment(environment, spec)
    cwd = spec.cwd or env.get("HOME") or "/"
    found: dict[str, tuple[int, int, int, int]] = {}
    named = [os.path.join(cwd, argument) for argument in spec.args[:_MOST] if argument and "\0" not in argument]
    for path in (*leads_to(spec.command, env.get("PATH"), cwd), *named):
        try:
            is_now = os.stat(path)
        except OSError:
            continue
        runs = path not in named or is_now.st_mode & 0o111 or path.endswith(_SCRIPTS)
        if runs and stat.S_ISREG(is_now.st_mode):
            found[path] = (is_now.st_dev, is_now.st_ino, is_now.st_size, is_now.st_mtime_ns)
    return found
