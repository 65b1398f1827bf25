"""The driver's agent: what it answers, what it configures, and that it gets through a hub in both eras."""

from __future__ import annotations

import base64
import json
import sys

import anyio
import anyio.to_thread
import pytest

from mcphub.auth.idp import IDP
from mcphub.auth.records import IdpSession, decoded, idp_key
from mcphub.store.vault_file import VaultFile
from tests.conformance import driver
from tests.conformance.suite import EVERYTHING
from tests.fakes.agent import Message, text
from tests.fakes.hub import Place, running
from tests.fakes.rude_http import Reply, Request, RudeHttp, body, empty

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("roots/list", {}, {"roots": []}),
        ("ping", {}, {}),
        (
            "elicitation/create",
            {"requestedSchema": {"properties": {"a": {"default": 0}, "b": {"type": "string"}, "confirmed": {}}}},
            {"action": "accept", "content": {"a": 0, "confirmed": True}},
        ),
    ],
)
def test_answer(method: str, params: Message, said: Message) -> None:
    """Defaults are taken, also those that are false in Python; a confirmation is given; the rest is left out."""
    assert driver.answer(method, params) == said


def test_answers() -> None:
    """Each question is answered under its key; a state comes back only where one was given, even an empty one."""
    asked: Message = {"inputRequests": {"r": {"method": "roots/list"}}, "requestState": ""}
    assert driver.answers(asked) == {"inputResponses": {"r": {"roots": []}}, "requestState": ""}
    del asked["requestState"]
    assert driver.answers(asked) == {"inputResponses": {"r": {"roots": []}}}
    assert driver.answers({"requestState": "s"}) == {"requestState": "s"}


def test_setup() -> None:
    """A secret goes through the hub's environment, never into a file; a scenario without authorization has no oauth."""
    context = {"client_id": "c", "client_secret": "hidden"}
    made = driver.setup("auth/pre-registration", context, "http://localhost:1/mcp")
    assert made.entry["oauth"] == {"clientId": "c", "clientSecret": "${SUT_CLIENT_SECRET}"}
    assert "hidden" not in str(made.entry) + made.settings
    assert made.env["SUT_CLIENT_SECRET"] == "hidden"
    plain = driver.setup("tools_call", {}, "http://localhost:1/mcp")
    assert plain.entry == {"type": "http", "url": "http://localhost:1/mcp"}


def test_setup_of_grants_without_a_person() -> None:
    """What an administrator sets: the way, who may see credentials, and for the organisation's login its provider."""
    url, issuer = "http://localhost:1/mcp", "http://localhost:2"
    keyed = {"client_id": "c", "private_key_pem": "hidden"}
    made = driver.setup("auth/client-credentials-jwt", keyed, url, issuer, "/k")
    grant = {"grant": "client_credentials", "issuer": issuer}
    assert made.entry["oauth"] == {"clientId": "c", "privateKey": "${SUT_PRIVATE_KEY}", **grant}
    assert made.env["SUT_PRIVATE_KEY"] == "hidden" and 'key = "file:/k"' in made.settings
    workload = {"client_id": "c", "valid_jwt": "hidden", "expired_jwt": "old"}
    made = driver.setup("auth/wif-jwt-bearer", workload, url)
    assert made.entry["oauth"]["assertion"] == {"env": "SUT_WORKLOAD_TOKEN"}
    assert (made.entry["oauth"]["grant"], made.env["SUT_WORKLOAD_TOKEN"]) == ("jwt-bearer", "hidden")
    managed = {"client_id": "c", "idp_issuer": "http://localhost:3", "idp_client_id": "i"}
    made = driver.setup("auth/enterprise-managed-authorization", managed, url, issuer)
    assert made.entry["oauth"] == {"clientId": "c", "issuer": issuer, "xaa": True}
    assert '[xaaIdp]\nissuer = "http://localhost:3"\nclientId = "i"' in made.settings


async def test_issuer_of() -> None:
    """Read where the server's own metadata stands: with its path, else at the root; nobody where there is none."""
    named = json.dumps({"authorization_servers": ["http://localhost:2"]}).encode()
    place, there = "/.well-known/oauth-protected-resource", {""}

    def answer(request: Request) -> Reply:
        return body(named) if request.path in there else empty(404)

    async with RudeHttp(answer) as server:
        assert await anyio.to_thread.run_sync(driver.issuer_of, server.url) == ""
        for path in (place, f"{place}/mcp"):
            there.clear()
            there.add(path)
            assert await anyio.to_thread.run_sync(driver.issuer_of, server.url) == "http://localhost:2"


def test_what_a_login_left() -> None:
    """The id_token of the suite is in the vault as a login keeps it, under the provider and the client."""
    place = Place()
    try:
        claims = base64.urlsafe_b64encode(json.dumps({"sub": "me", "exp": 2000000000}).encode()).rstrip(b"=").decode()
        where = {"idp_issuer": "http://i", "idp_client_id": "c", "idp_token_endpoint": "http://i/token"}
        key = str(place.root / "key")
        driver.logged_in(place, key, {**where, "idp_id_token": f"e30.{claims}.x"})
        vault = VaultFile(str(place.root / "state" / "mcphub" / "vault"), f"file:{key}", {})
        record = vault.get(IDP, idp_key("http://i", "c"))
        login = decoded(record.data, IdpSession) if record is not None else None
        assert login is not None and (login.subject, login.expires_at) == ("me", 2000000000.0)
    finally:
        place.remove()


@pytest.mark.parametrize(
    ("scenario", "does"),
    [
        ("tools_call", driver.add_numbers),
        ("auth/anything", driver.authorized_call),
        ("something-new", driver.only_list),
    ],
)
def test_plan(scenario: str, does: object) -> None:
    """What the driver does not know is listed at least."""
    assert driver.plan(scenario) is does


async def test_through_a_hub() -> None:
    """The agent attaches in either era, finds the server's tools by its own names, and calls one."""
    entry = {"command": sys.executable, "args": ["-I", str(EVERYTHING), "--stdio"]}
    async with running({driver.SERVER: entry}) as hub:
        for modern in (False, True):
            with anyio.fail_after(20):
                async with await driver.attached(hub, modern) as agent:
                    run = driver.Run(agent, modern, hub)
                    assert f"{driver.PREFIX}test_simple_text" in {tool["name"] for tool in await run.tools()}
                    assert "simple text" in text(await run.call("test_simple_text"))
