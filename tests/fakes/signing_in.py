"""Owns `mcphub login` with a person at the other end of its URL.

It must not look into the hub: what is told on the terminal is all there is.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

import anyio
import httpx2
from anyio.streams.text import TextReceiveStream

from tests.fakes.hub import MCPHUB, Place
from tests.fakes.person import Person

_URL = re.compile(r"https?://\S+[?&]response_type=code\S*")


@dataclass
class Login:
    """How one ended: exit code, all that it said, and the last page that the browser showed."""

    code: int
    said: str
    page: httpx2.Response | None = None
    url: str = ""


async def login(place: Place, name: str, person: Person, *more: str, agrees: bool = True, paste: bool = False) -> Login:
    """The whole sign-in. `paste`: the browser is on another machine, the person copies where it was sent to."""
    command = [str(MCPHUB), "login", name, "--no-browser", *more]
    done = Login(-1, "")
    with anyio.fail_after(30):
        async with await anyio.open_process(
            command,
            env=place.environment(),
            cwd=place.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None and process.stdin is not None
            async for text in TextReceiveStream(process.stdout):
                done.said += text
                found = _URL.search(done.said)
                if found and not done.url and done.said.find("\n", found.start()) >= 0:
                    done.url = found[0]
                    if paste:
                        back = await person.redirect(done.url, agrees=agrees)
                        await process.stdin.send(f"{back}\n".encode())
                    else:
                        done.page = await person.visit(done.url, agrees=agrees)
            done.code = await process.wait()
    return done
