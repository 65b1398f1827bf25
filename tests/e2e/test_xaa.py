"""One login at the organisation (oidc-provider) for several servers at a real authorization server (SEP-990), until
the login itself ends, in real time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from mcphub.auth.idp import IDP
from mcphub.auth.records import SKEW
from mcphub.store.vault_file import VaultFile
from tests.fakes.agent import Agent
from tests.fakes.authorities import Authority, oidc, signed
from tests.fakes.hub import MCPHUB, Hub, Place, row, running
from tests.fakes.person import Person
from tests.fakes.signing_in import login

pytestmark = [pytest.mark.anyio, pytest.mark.counterparts]

SECRET, IDP_SECRET = "secret-at-the-server's: 1/2", "secret&at=the+provider's"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: Seconds of access tokens, and of logins after the time by which they count as over beforehand.
SHORT, LOGINS = 5, {"lasting": 3, "ending": 8}
#: Seconds between the calls of an agent that goes on calling.
PACE = 0.05
SERVERS = ("first", "second", "denied")


def provider_client(name: str, *more: str) -> dict[str, Any]:
    return {
        "client_id": name,
        "client_secret": IDP_SECRET,
        "application_type": "native",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", EXCHANGE, *more],
    }


@dataclass
class World:
    issuers: Authority
    far: Authority
    person: Person

    def settings(self, place: Place, client: str) -> str:
        return (
            f'[vault]\nkey = "file:{place.root / "key"}"\n[oauth]\nnotify = false\n'
            f'[xaaIdp]\nissuer = "{self.issuers.urls["idp"]}"\nclientId = "{client}"\n'
            'clientSecret = "${IDP_SECRET}"\n'
        )

    def servers(self) -> dict[str, Any]:
        oauth = {
            "xaa": True, "clientId": "hub", "clientSecret": "${AS_SECRET}", "issuer": self.issuers.urls["as"]
        }
        return {name: {"type": "http", "url": url, "oauth": oauth} for name, url in self.far.urls.items()}

    def logins(self) -> int:
        """How often a person was at the provider."""
        return len(self.issuers.lines("idp", grant="authorization_code"))

    @asynccontextmanager
    async def hub(self, client: str) -> AsyncIterator[Hub]:
        place = Place()
        env = {"AS_SECRET": SECRET, "IDP_SECRET": IDP_SECRET}
        try:
            settings = self.settings(place, client)
            async with running(self.servers(), settings=settings, place=place, env=env) as hub:
                yield hub
        finally:
            place.remove()


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[World]:
    job = {
        "idp": {
            "idTtl": {client: int(SKEW / 2) + lasts for client, lasts in LOGINS.items()},
            "refuses": "/denied",
            "clients": [provider_client("lasting", "refresh_token"), provider_client("ending")],
        },
        "as": {
            "ttl": SHORT,
            "trusts": "idp",
            "jag": "hub",
            "register": False,
            "clients": [
                {
                    "client_id": "hub",
                    "client_secret": SECRET,
                    "redirect_uris": [],
                    "response_types": [],
                    "grant_types": [BEARER],
                }
            ],
        },
    }
    async with oidc(job) as issuers:
        far_job = {name: {"issuer": issuers.urls["as"], "path": f"/{name}"} for name in SERVERS}
        async with signed(far_job) as far:
            person = Person("grace")
            yield World(issuers, far, person)
            await person.close()


async def says(agent: Agent, server: str) -> str:
    response = await agent.call(f"mcp__{server}__whoami")
    assert "result" in response, response
    said: str = response["result"]["content"][0]["text"]
    return said


async def who(agent: Agent, server: str) -> dict[str, Any]:
    said = await says(agent, server)
    assert said.startswith("{"), said
    found: dict[str, Any] = json.loads(said)
    return found


async def test_one_login_for_all(world: World) -> None:
    """SEP-990: three servers wait for one login; a person signs in to one of them, at the organisation, and all are
    there but the one that the organisation denies, which is told as such and asks nobody for anything. Tokens end and
    are had again without a person, and so is the login while the provider renews it; signing out of all ends it."""
    async with world.hub("lasting") as hub:
        report = await hub.until_state(*SERVERS, state="needs-auth")
        assert {row(report, name)["sign_in"]["how"] for name in SERVERS} == {"idp_login"}
        done = await login(hub.place, "--all", world.person)
        assert done.code == 0 and "at the organisation" in done.said, done.said
        await hub.until_state("first", "second")
        denied = row(await hub.until_state("denied", state="failed"), "denied")
        assert "policy_denied" in denied["reason"] and "mcphub login" not in denied["reason"]
        assert (denied["sign_in"]["reason"], denied["sign_in"]["how"]) == ("policy_denied", "wait")
        assert world.logins() == 1
        async with await hub.agent() as agent:
            await agent.initialize()
            first, second = await who(agent, "first"), await who(agent, "second")
            assert (first["sub"], first["client"]) == (second["sub"], second["client"]) == ("grace", "hub")
            # Past the end of several access tokens, and of the login itself.
            with anyio.fail_after(30):
                while not world.issuers.lines("idp", grant="refresh_token"):
                    assert (await who(agent, "first"))["sub"] == "grace"
                    await anyio.sleep(PACE)
            assert (await who(agent, "second"))["sub"] == "grace"
            assert not any(line["error"] for line in world.issuers.lines("idp", grant="refresh_token"))
        assert world.logins() == 1
        assert len(world.issuers.lines("as", grant=BEARER, error="")) >= 3
        command = [str(MCPHUB), "logout", "--all"]
        out = await anyio.run_process(command, check=False, env=hub.place.environment(), cwd=hub.place.root)
        assert out.returncode == 0, out
        async with await hub.agent() as agent:
            await agent.initialize()
            assert "mcphub login first" in await says(agent, "first")
        report = await hub.until_state("first", "second", state="needs-auth")
        assert {row(report, name)["sign_in"]["how"] for name in SERVERS} == {"idp_login"}
        vault = VaultFile(
            str(hub.place.root / "state" / "mcphub" / "vault"), f"file:{hub.place.root / 'key'}", {}
        )
        assert vault.list(IDP) == {}
        done = await login(hub.place, "--all", world.person)
        assert done.code == 0 and "at the organisation" in done.said, done.said
        await hub.until_state("first", "second")
        async with await hub.agent() as agent:
            await agent.initialize()
            assert (await who(agent, "second"))["sub"] == "grace"
        said = hub.stderr() + json.dumps(await hub.status())
        assert SECRET not in said and IDP_SECRET not in said and "eyJ" not in said


async def test_the_login_ends(world: World) -> None:
    """Where the provider does not renew a login, its end is told by the servers that need it, and the next login wakes
    them all."""
    async with world.hub("ending") as hub:
        await hub.until_state("first", "second", state="needs-auth")
        before = world.logins()
        done = await login(hub.place, "first", world.person)
        assert done.code == 0, done.said
        await hub.until_state("first", "second")
        async with await hub.agent() as agent:
            await agent.initialize()
            assert (await who(agent, "first"))["sub"] == "grace"
            said = ""
            with anyio.fail_after(30):
                while "mcphub login first" not in said:
                    said = await says(agent, "first")
                    await anyio.sleep(PACE)
            assert (await hub.server("first"))["sign_in"]["how"] == "idp_login"
            done = await login(hub.place, "first", world.person)
            assert done.code == 0, done.said
            await hub.until_state("first", "second")
            assert (await who(agent, "second"))["sub"] == "grace"
        assert world.logins() == before + 2
