"""The vault of a daemon: secrets reach the servers that ask for them and nobody else, locked or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from mcphub.store.vault_file import VaultFile
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, running
from tests.fakes.key_ring import key_ring

pytestmark = pytest.mark.anyio

FIRST, SECOND, HORSE = "tok-first-11111", "tok-second-22222", "correct-horse-33333"
NEEDS = Fake(entry={"env": {"TOKEN": "${secret:gh}", "BOTH": "x-${secret:gh}"}})
HEADER = {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer ${secret:gh}"}}


async def keep(hub: Hub, value: str) -> dict[str, object]:
    code, report = await hub.control("POST", "/v1/secret", body={"name": "gh", "value": value})
    assert code == 200, report
    assert isinstance(report, dict)
    return report


def token(hub: Hub, name: str) -> str | None:
    """What the running server has in its environment."""
    return psutil.Process(hub.place.starts(name)[-1]).environ().get("TOKEN")


def processes(hub: Hub, *but: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Arguments and environment of everything that runs there, without the servers named."""
    pids = {hub.place.starts(name)[-1] for name in but}
    for process in hub.place.processes():
        if process.pid not in pids:
            yield process.cmdline(), process.environ()


async def seen(hub: Hub) -> str:
    """All that a daemon tells, logs, keeps and passes on, but to the server that was given the secret."""
    paths = ("/v1/status", "/v1/secrets", "/v1/vault", "/v1/logs/needs", "/v1/config", "/v1/why/needs")
    told = [(await hub.control("GET", path))[1] for path in paths]
    folders = [hub.place.root / name for name in ("state", "config", "cache", "data", "run")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("latin-1") for path in files]
    return json.dumps(told) + hub.stderr() + "".join(texts) + repr(list(processes(hub, "needs")))


async def test_a_secret_reaches_who_asks_for_it() -> None:
    """S13, C025: it is in the environment of that server and nowhere else; when it changes, that server is started
    again and no other; when it is taken away, that server says so by its name."""
    place = Place()
    key = place.root / "key"
    servers = {"needs": NEEDS, "other": Fake(), "header": HEADER}
    try:
        async with running(
            servers, settings=f'[vault]\nkey = "file:{key}"\n[connect]\nattempts = 1\n', place=place
        ) as hub:
            await hub.until_state("other")
            await hub.until_state("needs", "header", state="failed")
            assert "${secret:gh}: no secret has this name; keep one" in (await hub.server("needs"))["reason"]
            assert not any("vault" in problem for problem in (await hub.status())["problems"])
            command = [str(MCPHUB), "secret", "set", "gh"]
            done = await anyio.run_process(command, input=FIRST.encode(), env=place.environment(), cwd=place.root)
            assert done.stdout == b"gh: set; used by header, needs\n"
            await hub.until_state("needs", "other")
            assert token(hub, "needs") == FIRST
            text = await seen(hub)
            assert FIRST not in text and key.read_text().strip() not in text
            assert hub.process is not None
            assert psutil.Process(hub.process.pid).rlimit(psutil.RLIMIT_CORE) == (0, 0)

            await keep(hub, SECOND)
            await hub.until_restarted("needs", 2)
            assert token(hub, "needs") == SECOND
            assert len(place.starts("other")) == 1
            assert (await hub.control("POST", "/v1/vault/rotate"))[1]["state"] == "open"
            text = await seen(hub)
            assert FIRST not in text and SECOND not in text and key.read_text().strip() not in text

            # Another process, as a second daemon would be: neither loses what the other keeps.
            other = VaultFile(str(place.root / "state" / "mcphub" / "vault"), f"file:{key}", {})
            other.put("secret", "gh", FIRST.encode())
            await hub.until_restarted("needs", 3)
            assert token(hub, "needs") == FIRST
            code, report = await hub.control("DELETE", "/v1/secrets/gh")
            assert code == 200 and report["servers"] == ["header", "needs"]
            await hub.until_state("needs", state="failed")
            assert (await hub.control("DELETE", "/v1/secrets/gh"))[0] == 404
            assert (await hub.control("POST", "/v1/secret", body={"name": "a b", "value": "x"}))[0] == 400
            assert len(place.starts("other")) == 1
    finally:
        place.remove()


async def test_a_passphrase_that_nobody_gave_yet() -> None:
    """After each start the vault is locked until a person opens it: servers that need it say so, others run; then they
    are tried at once. A wrong passphrase changes nothing."""
    place = Place()
    settings = '[vault]\nkey = "passphrase"\n'
    try:
        async with running({"needs": NEEDS, "other": Fake()}, settings=settings, place=place) as hub:
            code, report = await hub.control("POST", "/v1/secret", body={"name": "gh", "value": FIRST})
            assert code == 409 and "mcphub vault unlock" in report["error"]["message"]
            assert (await hub.control("POST", "/v1/vault/unlock", body={"passphrase": HORSE}))[1]["state"] == "open"
            await keep(hub, FIRST)
            await hub.until_state("needs", "other")
        async with running({"needs": NEEDS, "other": Fake()}, settings=settings, place=place) as hub:
            await hub.until_state("other")
            await hub.until_state("needs", state="failed")
            assert "give its passphrase: mcphub vault unlock" in (await hub.server("needs"))["reason"]
            assert any("mcphub vault unlock" in problem for problem in (await hub.status())["problems"])
            code, report = await hub.control("POST", "/v1/vault/unlock", body={"passphrase": HORSE + "!"})
            assert code == 409 and "not the one" in report["error"]["message"]
            assert (await hub.control("POST", "/v1/vault/unlock", body={"passphrase": HORSE}))[1]["state"] == "open"
            await hub.until_state("needs", "other")
            assert token(hub, "needs") == FIRST
            text = await seen(hub)
            assert HORSE not in text and FIRST not in text
            assert not any("vault" in problem for problem in (await hub.status())["problems"])
    finally:
        place.remove()


async def test_a_key_ring(tmp_path: Path) -> None:
    """The key is in a real key ring: open, it is used without a word; locked, only who needs it waits; unlocked later,
    `mcphub vault unlock` starts what waited."""
    place = Place()
    servers = {"needs": NEEDS, "other": Fake()}
    try:
        with key_ring(tmp_path, "unlocked") as ring:
            async with running(servers, place=place, env=ring.variables) as hub:
                await hub.until_state("other")
                await keep(hub, FIRST)
                await hub.until_state("needs", "other")
            async with running(servers, place=place, env=ring.variables) as hub:
                await hub.until_state("needs", "other")
                assert place.starts("needs")[-1] and FIRST not in await seen(hub)
        with key_ring(tmp_path, "locked") as ring:
            async with running(servers, place=place, env=ring.variables) as hub:
                await hub.until_state("other")
                await hub.until_state("needs", state="failed")
                assert (await hub.control("GET", "/v1/vault"))[1]["reason"] == "locked"
                ring.unlock()
                assert (await hub.control("POST", "/v1/vault/unlock"))[1]["state"] == "open"
                await hub.until_state("needs", "other")
                assert token(hub, "needs") == FIRST
    finally:
        place.remove()


async def test_a_key_ring_that_asks_for_ever(tmp_path: Path) -> None:
    """A window that nobody answers keeps neither the start, nor other servers, nor the end of the daemon waiting."""
    place = Place()
    try:
        with key_ring(tmp_path, "unlocked") as ring:
            async with running({"other": Fake()}, place=place, env=ring.variables) as hub:
                await keep(hub, FIRST)
        with key_ring(tmp_path, "locked", asks=True) as ring:
            async with running({"needs": NEEDS, "other": Fake()}, place=place, env=ring.variables) as hub:
                await hub.until_state("other")
                await hub.until(lambda report: any("on your screen" in one for one in report["problems"]), timeout=15)
                assert (await hub.control("GET", "/v1/vault"))[1]["reason"] == "waiting"
                await hub.until_state("needs", state="failed")
                assert await hub.stop(timeout=10) == 0
    finally:
        place.remove()
