"""What the desktop is told of sign-ins that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from mcphub.auth.challenge import Challenge
from mcphub.auth.failures import FlowFailure, SignInFailed
from mcphub.login import notification
from mcphub.login.notification import Notifications, command
from tests.auth import homes
from tests.fakes.hub import eventually

pytestmark = pytest.mark.anyio

DESKTOP = {"DBUS_SESSION_BUS_ADDRESS": "unix:x", "DISPLAY": ":0"}


@pytest.mark.parametrize(
    ("names", "platform", "environ", "said"),
    [
        (["a"], "linux", DESKTOP, ["notify-send", "mcphub: a needs a sign-in", "mcphub login a"]),
        (["-x", "b"], "linux", DESKTOP, ["notify-send", "mcphub: -x, b need a sign-in", "mcphub login --all"]),
        (list("abcde"), "linux", DESKTOP, ["notify-send", "mcphub: a, b, c and 2 more need a sign-in", "--all"]),
        (['a" & beep'], "darwin", {}, ["osascript", 'mcphub: a" & beep needs a sign-in', 'mcphub login a" & beep']),
        (["a"], "linux", {"DISPLAY": ":0"}, []),
        (["a"], "linux", {"DBUS_SESSION_BUS_ADDRESS": "unix:x"}, []),
        (["a"], "freebsd14", DESKTOP, []),
    ],
)
def test_the_program(names: list[str], platform: str, environ: dict[str, str], said: list[str]) -> None:
    """By its argv, behind what ends its options; a name is never part of a script."""
    words = command(names, platform, environ)
    if not said:
        assert words == []
        return
    assert words[0] == said[0]
    assert words[-2] == said[1] and said[2] in words[-1]
    if platform == "darwin":
        assert "beep" not in words[2]
    else:
        assert words[-3] == "--"


async def test_once_for_each_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C118: several servers together, each once for one need; a program that fails is nothing; where a person does not
    want it, nothing runs."""
    monkeypatch.setattr(notification, "GATHER", 0.05)
    ran: list[Sequence[str]] = []
    wanted = True

    async def run(words: Sequence[str], within: float, most: int) -> str:
        ran.append(words)
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, "no such program")

    told = Notifications(run, lambda: DESKTOP, lambda: wanted, "linux")
    async with homes.hub(tmp_path, homes.Clock()) as hub, anyio.create_task_group() as tasks:
        hub.credentials.listeners.append(lambda account: told.changed(hub.credentials.known(account)))
        tasks.start_soon(told.run)
        a, b = (hub.of(homes.server(f"http://127.0.0.1:9/{name}", name=name)) for name in ("a", "b"))
        for credential in (a, b, a):
            await credential.refused(0, Challenge())
        await eventually(lambda: ran, timeout=10)
        assert [words[-2] for words in ran] == ["mcphub: a, b need a sign-in"]
        told.changed(a)
        told.changed(None)
        await a.drop()
        wanted = False
        c = hub.of(homes.server("http://127.0.0.1:9/c", name="c"))
        await c.refused(0, Challenge())
        await eventually(lambda: not told._new, timeout=10)
        assert len(ran) == 1
        tasks.cancel_scope.cancel()
