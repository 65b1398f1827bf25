"""Signing in at real authorization servers (oidc-provider), in real time: each grant, and what a token's end brings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey

from mcphub.auth.credential import TOKENS
from mcphub.auth.records import TokenSet, decoded
from mcphub.store.vault_file import VaultFile
from tests.fakes.agent import Agent, Message
from tests.fakes.authorities import ROOT, Authority, oidc, signed
from tests.fakes.certificates import Authority as Certificates
from tests.fakes.hub import MCPHUB, Hub, Place, row, running
from tests.fakes.person import Person
from tests.fakes.rude_http import RudeHttp, body
from tests.fakes.signing_in import login

pytestmark = [pytest.mark.anyio, pytest.mark.counterparts]

#: Of characters that must be encoded before they are joined (RFC 6749, 2.3.1).
ODD_ID, ODD_SECRET = "hub:of/me+1", "s3cr3t: %/+&=?~'"
MACHINE_SECRET = "machine-secret-with-enough-bytes"
#: Seconds of access tokens.
SHORT, LONG = 5, 600
#: Seconds between the calls of an agent that goes on calling.
PACE = 0.05
CALLBACK = "http://127.0.0.1/callback"


def key() -> tuple[str, dict[str, Any]]:
    """A private key as an entry has it, and what is registered of it."""
    made = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    public = ECKey.import_key(made.public_key()).as_dict(private=False)
    return made.private_bytes(*form).decode(), {**public, "use": "sig", "alg": "ES256"}


def clients(public: dict[str, Any]) -> list[dict[str, Any]]:
    alone: dict[str, Any] = {"redirect_uris": [], "response_types": [], "grant_types": ["client_credentials"]}
    return [
        {
            "client_id": ODD_ID,
            "client_secret": ODD_SECRET,
            "application_type": "native",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
        },
        {"client_id": "machine", "client_secret": MACHINE_SECRET, **alone},
        {
            "client_id": "keyed",
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_signing_alg": "ES256",
            "jwks": {"keys": [public]},
            **alone,
        },
    ]


@dataclass
class World:
    """Everything that runs, and one daemon before it. `servers`, `settings` and `env` are what any daemon needs."""

    issuers: Authority
    far: Authority
    place: Place
    servers: dict[str, Any]
    env: dict[str, str]
    settings: str
    hub: Hub
    person: Person = field(default_factory=Person)

    def tokens(self, server: str) -> TokenSet | None:
        """What the vault has for this server, by its resource."""
        vault = VaultFile(str(self.place.root / "state" / "mcphub" / "vault"), f"file:{self.place.root / 'key'}", {})
        found = [decoded(record.data, TokenSet) for record in vault.list(TOKENS).values()]
        return next((one for one in found if one is not None and one.resource == self.far.urls[server]), None)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    private, public = key()
    everyone = clients(public)
    certificates = Certificates.made(tmp_path_factory.mktemp("certificates"))
    job = {
        "short": {"ttl": SHORT},
        "long": {"ttl": LONG, "clients": everyone},
        "asked": {"ttl": LONG, "opaque": True, "clients": everyone},
        "nonce": {"ttl": SHORT, "nonce": True},
        "closed": {"ttl": LONG, "register": False, "document": True, "clients": everyone},
    }
    place = Place()
    own = json.loads((ROOT / "docs" / "client-metadata.json").read_bytes())
    published = RudeHttp(lambda _: body(json.dumps({**own, "client_id": document_url}).encode()))
    published.tls, published.path = certificates.server("127.0.0.1"), "/client.json"
    async with published, oidc(job, {"NODE_EXTRA_CA_CERTS": str(certificates.path)}) as issuers:
        document_url = published.url
        at = issuers.urls
        far_job = {
            "rotating": {"issuer": at["short"]},
            "steps": {"issuer": at["long"]},
            "registered": {"issuer": at["closed"]},
            "published": {"issuer": at["closed"]},
            "machine": {"issuer": at["asked"], "client": f"machine:{MACHINE_SECRET}"},
            "keyed": {"issuer": at["long"]},
            "bound": {"issuer": at["long"], "dpop": "plain"},
            "bound-nonce": {"issuer": at["nonce"], "dpop": "nonce"},
            "leaving": {"issuer": at["long"]},
        }
        grant = {"grant": "client_credentials"}
        oauth: dict[str, dict[str, Any]] = {
            "registered": {"clientId": ODD_ID, "clientSecret": "${ODD}"},
            "published": {"clientMetadataUrl": document_url},
            "machine": {"clientId": "machine", "clientSecret": "${MACHINE}", "issuer": at["asked"], **grant},
            "keyed": {"clientId": "keyed", "privateKey": "${KEY}", "issuer": at["long"], **grant},
        }
        async with signed(far_job) as far:
            servers = {
                name: {"type": "http", "url": url, **({"oauth": oauth[name]} if name in oauth else {})}
                for name, url in far.urls.items()
            }
            env = {"ODD": ODD_SECRET, "MACHINE": MACHINE_SECRET, "KEY": private}
            settings = f'[vault]\nkey = "file:{place.root / "key"}"\n[oauth]\nnotify = false\n'
            try:
                async with running(servers, settings=settings, place=place, env=env) as hub:
                    world = World(issuers, far, place, servers, env, settings, hub)
                    yield world
                    await world.person.close()
            finally:
                place.remove()


@pytest.fixture
async def agent(world: World) -> AsyncIterator[Agent]:
    async with await world.hub.agent() as agent:
        await agent.initialize()
        yield agent


async def result(agent: Agent, server: str, tool: str = "whoami") -> tuple[bool, str]:
    """Whether it worked, and what was said."""
    response = await agent.call(f"mcp__{server}__{tool}")
    assert "result" in response, response
    found = response["result"]
    return not found.get("isError"), found["content"][0]["text"]


async def called(agent: Agent, server: str, tool: str = "whoami") -> Message:
    """Who the server saw, as it says itself."""
    worked, said = await result(agent, server, tool)
    assert worked, said
    found: Message = json.loads(said)
    return found


async def signed_in(world: World, server: str) -> None:
    """A person signs in to it, and it is connected then."""
    done = await login(world.place, server, world.person)
    assert done.code == 0, done.said
    await world.hub.until_state(server)


async def test_a_client_of_its_own(world: World, agent: Agent) -> None:
    """SEP-1046: with a secret or a key, without a person; a server that asks the issuer about each token agrees."""
    await world.hub.until_state("machine", "keyed")
    assert (await called(agent, "machine"))["client"] == "machine"
    assert (await called(agent, "keyed"))["client"] == "keyed"


async def test_a_client_that_registered_before(world: World, agent: Agent) -> None:
    """An id and a secret full of signs reach an issuer that lets nobody register; a person who does not agree is told
    as such, and may change their mind, at another machine too: what is pasted is as good as what comes."""
    await world.hub.until_state("registered", state="needs-auth")
    refused = await login(world.place, "registered", world.person, agrees=False)
    assert refused.code == 1 and "(denied)" in refused.said, refused.said
    assert refused.page is not None and refused.page.status_code == 400
    done = await login(world.place, "registered", world.person, paste=True)
    assert done.code == 0 and done.page is None, done.said
    await world.hub.until_state("registered")
    assert await called(agent, "registered") | {"jti": ""} == {
        "tool": "whoami", "sub": "ada", "client": ODD_ID, "jti": ""
    }


async def test_a_client_that_is_a_document(world: World, agent: Agent) -> None:
    """The issuer fetches what this client says of itself, docs/client-metadata.json under another URL, and takes it."""
    await signed_in(world, "published")
    assert (await called(agent, "published"))["client"].endswith("/client.json")


async def test_tokens_renew_and_theft_is_seen(world: World, agent: Agent) -> None:
    """C107, C108: a client that registers itself; no call fails while its tokens end, each end is one refresh with the
    newest refresh token; when somebody else used that one the whole family is dead, which is told, and a person
    mends it."""
    await signed_in(world, "rotating")
    first = await called(agent, "rotating")
    assert first["sub"] == "ada"

    def refreshes(error: bool = False) -> int:
        lines = world.issuers.lines("short", grant="refresh_token")
        return sum(bool(line["error"]) == error for line in lines)

    begun, seen = refreshes(), {first["jti"]}
    with anyio.fail_after(20):
        while refreshes() < begun + 1:
            seen.add((await called(agent, "rotating"))["jti"])
            await anyio.sleep(PACE)
    seen.add((await called(agent, "rotating"))["jti"])
    assert len(seen) == refreshes() - begun + 1 and refreshes(error=True) == 0

    # A thief was here: the one that mcphub has now is used by another.
    stolen = world.tokens("rotating")
    assert stolen is not None
    form = {"grant_type": "refresh_token", "refresh_token": str(stolen.refresh_token), "client_id": stolen.client_id}
    async with httpx2.AsyncClient(trust_env=False) as thief:
        assert (await thief.post(stolen.token_endpoint, data=form)).status_code == 200
    with anyio.fail_after(20):
        worked = True
        while worked:
            worked, _ = await result(agent, "rotating")
            await anyio.sleep(PACE)
    found = row(await world.hub.until_state("rotating", state="needs-auth"), "rotating")
    assert found["sign_in"]["reason"] == "grant_rejected" and found["sign_in"]["how"] == "browser"
    assert refreshes(error=True) == 1
    assert "mcphub login rotating" in (await result(agent, "rotating"))[1]
    assert world.tokens("rotating") is None
    await signed_in(world, "rotating")
    await called(agent, "rotating")


async def test_more_is_wanted(world: World, agent: Agent) -> None:
    """2026-07-28, step-up: a call that wants more leaves the server connected and says what to do; the next sign-in
    asks for all, old and new, and then the call works."""
    await signed_in(world, "steps")
    await called(agent, "steps")
    worked, said = await result(agent, "steps", "write")
    assert not worked and "mcp:write" in said and "mcphub login steps" in said
    found = await world.hub.server("steps")
    assert found["state"] == "connected" and "mcp:write" in found["sign_in"]["scopes"]
    done = await login(world.place, "steps", world.person)
    assert done.code == 0, done.said
    asked = parse_qs(urlsplit(done.url).query)["scope"][0].split()
    assert {"mcp:read", "mcp:write"} <= set(asked)
    assert (await called(agent, "steps", "write"))["sub"] == "ada"
    assert "sign_in" not in await world.hub.server("steps")


@pytest.mark.parametrize("server", ["bound", "bound-nonce"])
async def test_tokens_bound_to_a_key(world: World, agent: Agent, server: str) -> None:
    """RFC 9449: issuer and server each see a proof of their own, with their own nonces where they want them, on every
    request and on a refresh."""
    await signed_in(world, server)
    seen = {(await called(agent, server))["jti"]}
    kept = world.tokens(server)
    assert kept is not None and kept.token_type == "DPoP"
    if server == "bound-nonce":
        with anyio.fail_after(20):
            while len(seen) < 2:
                seen.add((await called(agent, server))["jti"])
                await anyio.sleep(PACE)
        errors = {line["error"] for line in world.issuers.lines("nonce", grant="refresh_token")}
        assert "" in errors and all("use_dpop_nonce" in error for error in errors - {""})


async def test_signing_out(world: World, agent: Agent) -> None:
    """S19: what was given is revoked there, and forgotten here."""
    await signed_in(world, "leaving")
    kept = world.tokens("leaving")
    assert kept is not None
    command = [str(MCPHUB), "logout", "leaving"]
    done = await anyio.run_process(command, check=False, env=world.place.environment(), cwd=world.place.root)
    assert done.returncode == 0 and b"revoked" in done.stdout, done
    await world.hub.until_state("leaving", state="needs-auth")
    assert world.tokens("leaving") is None
    form = {"grant_type": "refresh_token", "refresh_token": str(kept.refresh_token), "client_id": kept.client_id}
    async with httpx2.AsyncClient(trust_env=False) as thief:
        answer = await thief.post(kept.token_endpoint, data=form)
    assert answer.json()["error"] == "invalid_grant"


async def test_two_daemons_take_turns(world: World) -> None:
    """C115: two daemons on one store; each end of a token is one refresh in all, whoever comes first, and no call of
    either fails."""
    await signed_in(world, "rotating")
    other = Place()
    try:
        root = world.place.root
        env = {**world.env, "XDG_STATE_HOME": str(root / "state"), "XDG_CONFIG_HOME": str(root / "config")}
        async with running(world.servers, settings=world.settings, place=other, env=env) as second:
            await second.until_state("rotating")
            before = len(world.issuers.lines("short", grant="refresh_token"))
            seen: set[str] = set()

            async def use(hub: Hub) -> None:
                async with await hub.agent() as agent:
                    await agent.initialize()
                    mine = {(await called(agent, "rotating"))["jti"]}
                    while len(mine) < 2:
                        mine.add((await called(agent, "rotating"))["jti"])
                        await anyio.sleep(PACE)
                    seen.update(mine)

            with anyio.fail_after(25):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(use, world.hub)
                    tasks.start_soon(use, second)
            lines = world.issuers.lines("short", grant="refresh_token")[before:]
            assert not any(line["error"] for line in lines)
            assert len(lines) <= len(seen) <= len(lines) + 1
    finally:
        other.remove()


def written(root: Path) -> str:
    """All files of a place."""
    folders = [root / name for name in ("state", "config", "cache", "data", "run")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


async def test_nothing_is_told(world: World) -> None:
    """S12, S13: no token of any of this stands in what the daemon said, logged or keeps, nor any secret of the
    entries."""
    await world.hub.until_state("machine", "keyed")
    names = [name for name in world.far.urls if world.tokens(name) is not None]
    assert {"machine", "keyed"} <= set(names)
    status = json.dumps(await world.hub.status())
    logs = [await world.hub.control("GET", f"/v1/logs/{name}") for name in world.far.urls]
    said = status + json.dumps(logs) + world.hub.stderr() + await anyio.to_thread.run_sync(written, world.place.root)
    for name in names:
        kept = world.tokens(name)
        assert kept is not None
        for secret in (kept.access_token, kept.refresh_token, kept.dpop_key):
            assert not secret or str(secret) not in said, name
    assert ODD_SECRET not in said and MACHINE_SECRET not in said
