"""The life of tokens in a real daemon: renewed, lost, dead; over restarts; and seen nowhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcphub.auth.records import Account, TokenSet, account_of, encoded
from mcphub.spec import HttpSpec, OAuthSpec, Origin, Scope, Secret, ServerSpec
from mcphub.store.vault_file import VaultFile
from tests.fakes.agent import text
from tests.fakes.http_agent import HttpAgent
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import Guarded, RudeAs, error
from tests.fakes.rude_http import RudeHttp

pytestmark = pytest.mark.anyio


def account(name: str, url: str) -> Account:
    found = account_of(ServerSpec(name, Origin(Scope.USER, "", name), HttpSpec(Secret(url), oauth=OAuthSpec())))
    assert found is not None
    return found


def keep(place: Place, auth: RudeAs, name: str, url: str, *, left: float) -> None:
    """A sign-in in the vault, as a person's, whose access token is good for `left` more seconds."""
    family = auth.signed_in("https://client.example/id")
    family.ends = auth.clock() + left
    now = time.time_ns() / 1e9
    tokens = TokenSet(
        Secret(family.access),
        auth.issuer,
        family.client,
        f"{auth.origin}/token",
        url,
        obtained_at=now - 3600,
        expires_at=now + left,
        refresh_token=Secret(family.refresh),
        client_source="cimd",
        client_method="none",
    )
    vault(place).put("tokens", account(name, url).key, encoded(tokens))


def vault(place: Place) -> VaultFile:
    return VaultFile(str(place.root / "state" / "mcphub" / "vault"), f"file:{place.root / 'key'}", {})


def processes(hub: Hub) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Arguments and environment of everything that runs there."""
    for process in hub.place.processes():
        yield process.cmdline(), process.environ()


async def seen(hub: Hub, *names: str) -> str:
    """All that a daemon tells, logs, keeps outside its vault and passes on."""
    paths = ["/v1/status", "/v1/config", *(f"/v1/{verb}/{name}" for name in names for verb in ("logs", "why"))]
    told = [(await hub.control("GET", path))[1] for path in paths]
    folders = [hub.place.root / name for name in ("state", "config", "cache", "data", "run")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("latin-1") for path in files]
    return json.dumps(told) + hub.stderr() + "".join(texts) + repr(list(processes(hub)))


def loaded(hub: Hub, library: str) -> bool:
    """Whether the daemon has a library in its memory."""
    assert hub.process is not None
    return any(library in one.path for one in psutil.Process(hub.process.pid).memory_maps())


CALL = {"name": "mcp__signed__echo", "arguments": {"text": "x"}}
DEBUG = ["--log-level", "debug"]


async def test_the_life_of_tokens() -> None:
    """C108, C115, C118: tokens that are over are renewed at the start, once, whoever asks; a restart finds them, and
    asks nothing of a server that wants a sign-in; dead ones are told with the next step, to agents as the result of a
    call; other servers go on; and of all that is confidential nothing is to be seen, at any level of the log."""
    place = Place()
    settings = f'[vault]\nkey = "file:{place.root / "key"}"\n[http]\nlisten = "127.0.0.1:0"\n'
    try:
        async with RudeAs(life=3600) as auth:
            wants = Guarded(auth, OrdinaryMcp(era="modern"))
            async with RudeHttp(Guarded(auth, OrdinaryMcp(sessions=False))) as one, RudeHttp(wants) as two:
                auth.protects(one.url)
                keep(place, auth, "signed", one.url, left=-10)
                servers: dict[str, Any] = {
                    "signed": {"type": "http", "url": one.url},
                    "wants": {"type": "http", "url": two.url},
                    "plain": Fake(),
                }
                async with running(servers, settings=settings, place=place, args=DEBUG) as hub:
                    await _renewed(hub, auth)
                before = len(two.requests)
                async with running(servers, settings=settings, place=place, args=DEBUG) as hub:
                    await hub.until_state("signed", "plain")
                    await hub.until_state("wants", state="needs-auth")
                    assert len(two.requests) == before
                    assert len(auth.asked("refresh")) == 2
                    await _dead(hub, auth)
                    assert vault(place).get("tokens", account("signed", one.url).key) is None
                auth.forget()
                keep(place, auth, "signed", one.url, left=600)
                (place.root / "key").rename(place.root / "away")
                (place.root / "state" / "mcphub" / "challenges.json").unlink()
                async with running(servers, settings=settings, place=place) as hub:
                    await _locked(hub)
    finally:
        place.remove()


async def _renewed(hub: Hub, auth: RudeAs) -> None:
    await hub.until_state("signed", "plain")
    await hub.until_state("wants", state="needs-auth")
    assert "mcphub login wants" in json.dumps(await hub.server("wants"))
    assert len(auth.asked("refresh")) == 1
    auth.families[-1].ends = 0.0  # revoked: all calls find out at once
    async with await hub.agent() as agent:
        sent = [await agent.start_modern("tools/call", CALL) for _ in range(43)]
        assert [text(await agent.response(one)) for one in sent] == ["x"] * 43
    assert len(auth.asked("refresh")) == 2
    await _nothing_is_seen(hub, auth)


async def _dead(hub: Hub, auth: RudeAs) -> None:
    auth.families[-1].alive = False
    # As some do: the text repeats all that came.
    auth.on("refresh", lambda request: error("invalid_grant", request.body.decode()), times=None)
    async with await hub.agent() as agent:
        assert "mcphub login signed" in json.dumps(await agent.modern("tools/call", CALL))
    await hub.until_state("signed", state="needs-auth")
    assert "grant_rejected" in json.dumps(await hub.server("signed"))
    assert len(auth.asked("refresh")) == 3
    # A 401 of a server is no 401 of ours.
    done = await anyio.run_process([str(MCPHUB), "connect", "--print-url"], env=hub.place.environment())
    web = HttpAgent(done.stdout.decode().strip())
    await web.initialize()
    assert (await web.request("tools/call", CALL)).status == 200
    assert row(await hub.status(), "plain")["state"] == "connected"
    await _nothing_is_seen(hub, auth)


async def _locked(hub: Hub) -> None:
    """C115: a vault that cannot be opened is not an empty one, and no matter of those who need nothing from it."""
    await hub.until_state("plain")
    await hub.until_state("signed", state="needs-auth")
    assert "needs the vault" in json.dumps(await hub.server("signed"))
    (hub.place.root / "away").rename(hub.place.root / "key")
    code, report = await hub.control("POST", "/v1/vault/unlock", body={})
    assert code == 200, report
    await hub.until_state("signed")


async def _nothing_is_seen(hub: Hub, auth: RudeAs) -> None:
    everything = await seen(hub, "signed", "wants", "plain")
    assert not [one for one in auth.confidential if one and one in everything]


async def test_what_a_start_loads(tmp_path: Path) -> None:
    """Whoever has no sign-in pays nothing for it: with servers of both kinds no cipher, key ring or JOSE is loaded."""
    settings = f'[vault]\nkey = "file:{tmp_path / "key"}"\n'
    async with RudeHttp(OrdinaryMcp()) as free:
        servers = {"free": {"type": "http", "url": free.url}, "plain": Fake()}
        async with running(servers, settings=settings) as hub:
            await hub.until_state("free", "plain")
            assert not loaded(hub, "cryptography")
            assert not (tmp_path / "key").exists()
    program = "import sys, mcphub.daemon, mcphub.hub, mcphub.net; print(*sorted(sys.modules))"
    done = await anyio.run_process([str(MCPHUB.with_name("python")), "-c", program])
    found = {name.partition(".")[0] for name in done.stdout.decode().split()}
    assert not found & {"joserfc", "cryptography", "keyring", "secretstorage"}
