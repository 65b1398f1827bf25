"""What an answer repeats of the secrets that it was asked with."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from mcphub.auth.client_authentication import BASIC, prove
from mcphub.auth.drive import drive
from mcphub.auth.echo import MASK, secrets_of, veiled
from mcphub.auth.flow import Answered, Ask, Flow, Reply, get, post_form
from mcphub.auth.records import Registration
from mcphub.auth.token_answer import Malformed, Outcome, Refused, read_token
from mcphub.spec import Secret

SECRET = "s3cr3t: %/+&=?~'"
PAIR = base64.b64encode(f"hub:{quote_plus(SECRET)}".encode()).decode()
TOKEN = "eyJ" + "abcdefghijk-_" * 90
FIELDS = {
    "grant_type": "refresh_token",
    "client_id": "hub",
    "client_secret": "another/secret",
    "code": "CODE-1234567",
    "code_verifier": "verifier~verifier",
    "refresh_token": "RT/+=",
    "assertion": TOKEN,
    "client_assertion": TOKEN + "x",
    "subject_token": TOKEN + "y",
}


def ask() -> Ask:
    proof = prove(Registration("hub", "config", "https://as.example", Secret(SECRET)), BASIC)
    return post_form("token", "https://as.example/token", FIELDS, *proof.headers)


@pytest.mark.parametrize(
    "repeated",
    [
        PAIR,
        f"Basic {PAIR}",
        PAIR.rstrip("="),
        SECRET,
        quote_plus(SECRET),
        quote(SECRET, safe="").lower(),
        json.dumps(SECRET)[1:-1],
        *(value for name, value in FIELDS.items() if name not in ("grant_type", "client_id")),
        "another\\/secret",
        "another%2Fsecret",
    ],
)
def test_every_form(repeated: str) -> None:
    """S12: as it was sent, as it was understood, as JSON or a form has it; what is no secret stays."""
    told = veiled(f"got [{repeated}] of client hub", secrets_of(ask()))
    assert repeated not in told and MASK in told
    assert told.startswith("got [") and told.endswith("] of client hub")


@pytest.mark.parametrize("part", [TOKEN[-200:], f"{TOKEN[-40:]} was sent", f"you sent {TOKEN[:250]}", PAIR[-12:]])
def test_what_was_cut(part: str) -> None:
    """S12: a server may cut what it repeats; the end of a token, or its beginning, is one still."""
    told = veiled(part, secrets_of(ask()))
    assert MASK in told and TOKEN[:12] not in told and TOKEN[-12:] not in told and PAIR[-12:] not in told


def test_what_holds_no_secret() -> None:
    """A document that is asked for, a registration, a text without any."""
    assert secrets_of(get("keys", "https://as.example/jwks")) == ()
    assert secrets_of(Ask("registration", "https://as.example/r", "POST", (), b'{"client_name":"x"}')) == ()
    assert veiled("unknown client hub", secrets_of(ask())) == "unknown client hub"


async def told_of(answer: Answered) -> Outcome:
    def flow() -> Flow[Outcome]:
        return read_token((yield ask()))

    async def send(ask: Ask) -> Reply:
        return answer

    return await drive(flow(), send)


@pytest.mark.anyio
@pytest.mark.parametrize("member", ["error", "error_description", "message"])
async def test_a_token_endpoint_that_repeats(member: str) -> None:
    """S11, S12: nothing of what was sent is in the failure, wherever the text is cut."""
    whole = "&".join(f"{name}={quote_plus(value)}" for name, value in FIELDS.items())
    document = {"error": "invalid_client", member: f"x {PAIR} {SECRET} {whole}"}
    found = await told_of(Answered(401, json.dumps(document).encode()))
    assert isinstance(found, Refused)
    secrets = [value[:12] for name, value in FIELDS.items() if name not in ("grant_type", "client_id")]
    for secret in (PAIR, PAIR[:12], SECRET, *secrets):
        assert secret not in found.detail + found.error
    kind = {"access_token": "a", "token_type": PAIR}
    odd = await told_of(Answered(200, json.dumps(kind).encode()))
    assert isinstance(odd, Malformed) and PAIR.lower() not in odd.detail.lower()
