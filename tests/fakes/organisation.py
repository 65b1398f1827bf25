"""Owns a machine of an organisation for one test: a real system directory that root writes, and a user who cannot.

It must not know what the files say. The daemon runs in a mount namespace of its own, where `/etc/mcphub` is a directory
that this process writes into, and under another uid; nothing of it is seen outside. That takes root, as CI has it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteStream

from tests.fakes.hub import MCPHUB, Hub, Place, Servers, start

#: Nobody's; no account needs to have it.
UID = 61234

# /etc becomes a directory of this namespace only where it has no mcphub to mount over.
_ENTER = """
set -e
system=$1 scratch=$2; shift 2
if [ ! -d /etc/mcphub ]; then
    mount --rbind /etc "$scratch"
    mount -t tmpfs -o mode=755 mcphub-test /etc
    for one in "$scratch"/*; do ln -s "$one" /etc/; done
    mkdir -m 755 /etc/mcphub
fi
mount --bind "$system" /etc/mcphub
exec "$@"
"""

# It may read what root may, since the interpreter may lie in root's home; it may write nothing more than any user. The
# security bit makes access(2) say the same as open(2) does.
_USER = [
    "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--securebits=+no_setuid_fixup",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--",
]


class Organisation:
    """`system` is what the daemon sees as /etc/mcphub. Every change there is whole at once unless a test says so."""

    def __init__(self) -> None:
        self.place = Place()
        self.system = Path(tempfile.mkdtemp(prefix="mcphub-etc-", dir="/tmp"))
        self.system.chmod(0o755)
        (self.place.root / "etc").mkdir()

    def under(self) -> list[str]:
        """The command that what follows it runs under. Raises AssertionError, saying what this machine lacks."""
        # In a user namespace the real root is nobody, and files of nobody's govern nothing.
        assert os.geteuid() == 0, (
            "this test writes files of root's and runs a daemon under another uid: run it as root (CI does)"
        )
        missing = [name for name in ("unshare", "setpriv", "mount") if shutil.which(name) is None]
        assert not missing, f"this test needs Linux and its util-linux; not found: {', '.join(missing)}"
        enter = ["unshare", "--mount"]
        probe = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
        assert probe.returncode == 0, (
            "this test needs a mount namespace of its own; a container has that with CAP_SYS_ADMIN: "
            f"{probe.stderr.strip()}"
        )
        return [*enter, "sh", "-c", _ENTER, "sh", str(self.system), str(self.place.root / "etc"), *_USER]

    def give(self) -> None:
        """Everything in the place to the user."""
        for directory, _, files in os.walk(self.place.root):
            for one in (directory, *(os.path.join(directory, name) for name in files)):
                os.chown(one, UID, UID, follow_symlinks=False)

    def write(self, name: str, content: Any) -> Path:
        """As root, a file of the system directory; what is no text is written as JSON."""
        path = self.system / name
        path.parent.mkdir(mode=0o755, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        draft.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        draft.chmod(0o644)
        draft.replace(path)
        return path

    def remove(self) -> None:
        self.place.remove()
        shutil.rmtree(self.system)


class Governed(Hub):
    """A hub of the user's, whom its sockets admit alone."""

    def __init__(self, organisation: Organisation, process: Any) -> None:
        super().__init__(organisation.place, process)
        self.organisation = organisation

    async def connect(self, path: Path | str) -> ByteStream:
        with self._as_user():
            return await anyio.connect_unix(path)

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """A verb of the command line, as the user."""
        return subprocess.run(
            [*_USER, str(MCPHUB), *args],
            env=self.place.environment(),
            cwd=self.place.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )

    @contextmanager
    def _as_user(self) -> Iterator[None]:
        """The kernel names the peer of a connection by who it was when it connected."""
        os.seteuid(UID)
        try:
            yield
        finally:
            os.seteuid(0)


@asynccontextmanager
async def governed(organisation: Organisation, servers: Servers) -> AsyncIterator[Governed]:
    """A daemon of the user's with these servers of theirs. The organisation is gone afterwards."""
    try:
        organisation.place.configure(servers)
        organisation.give()
        process = await start(organisation.place, {}, organisation.under())
        hub = Governed(organisation, process)
        try:
            yield hub
            await hub.stop()
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
                await process.aclose()
    finally:
        organisation.remove()
