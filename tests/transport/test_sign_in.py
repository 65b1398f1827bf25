"""What a person is told of a server that wants credentials, over real sockets."""

from __future__ import annotations

import pytest

from mcphub.net import http_client
from mcphub.protocol.http_answer import Refusal
from mcphub.transport import sign_in
from mcphub.transport.sign_in import explained
from tests.fakes.rude_http import CLOSE, NEVER, Answer, Reply, Request, RudeHttp, body, empty, encoded, raw, redirect

pytestmark = pytest.mark.anyio

KNOWN = "/.well-known/oauth-protected-resource"
REFUSED = Refusal("needs_auth", "HTTP 401 Unauthorized")


def document(request: Request) -> bytes:
    origin = f"http://{request.header('Host')}"
    return encoded({"resource": f"{origin}/mcp", "authorization_servers": ["https://as.example/t"]})


async def told(first: Answer, second: Answer, refusal: Refusal = REFUSED) -> tuple[str, list[str]]:
    """What is said of a server with these answers below its path and at the root, and where it was looked."""
    answers = {f"{KNOWN}/mcp": first, KNOWN: second}

    def ordinary(request: Request) -> Reply:
        found = answers[request.path]
        return found(request) if callable(found) else found

    async with RudeHttp(ordinary) as server:
        async with http_client(server.url, {}) as client:
            said = await explained(client, server.url, refusal)
        assert {request.method for request in server.requests} <= {"GET"}
        assert {request.header("Authorization") for request in server.requests} <= {None}
        return said, [request.path for request in server.requests]


@pytest.mark.parametrize("status", [404, 401, 403, 405])
async def test_a_document_at_the_root(status: int) -> None:
    """C093: whatever 4xx the first place answers with, the second is asked; what it names is told."""
    said, looked = await told(empty(status), lambda r: body(document(r)))
    assert "needs a sign-in" in said and "sign-in at https://as.example" in said
    assert looked == [f"{KNOWN}/mcp", KNOWN]


async def test_a_document_below_the_path() -> None:
    """C093: the root is not asked where the first place has answered, whatever that is worth."""
    said, looked = await told(lambda r: body(document(r)), empty(500))
    assert "sign-in at https://as.example" in said
    assert looked == [f"{KNOWN}/mcp"]
    said, looked = await told(body(b"<html>", "text/html"), lambda r: body(document(r)))
    assert "metadata is none" in said
    assert looked == [f"{KNOWN}/mcp"]


async def test_no_document() -> None:
    """C093: it wants a header rather than a sign-in, and that is what is told."""
    said, _ = await told(empty(404), empty(404))
    assert said.startswith("wants credentials and offers no sign-in (HTTP 401 Unauthorized, no OAuth metadata); ")
    assert said.endswith("set a header that it accepts in `headers`?")


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (empty(500), "HTTP 500"),
        (empty(429), "HTTP 429"),
        (raw(CLOSE), "without an answer"),
        (body(b"x").after(NEVER), "within 0.2 s"),
    ],
)
async def test_what_cannot_be_known(answer: Answer, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C093: trouble is not the absence of a sign-in, is told, and is over in bounded time."""
    monkeypatch.setattr(sign_in, "LOOK", 0.2)
    said, looked = await told(answer, lambda r: body(document(r)))
    assert said.startswith("needs a sign-in") and part in said
    assert looked == [f"{KNOWN}/mcp"]


async def test_a_challenge_says_it() -> None:
    """C093: a server that names its document needs no looking."""
    challenge = 'Bearer resource_metadata="https://m.example/meta"'
    said, looked = await told(empty(404), empty(404), Refusal("needs_auth", "HTTP 401", challenge=challenge))
    assert said.startswith("needs a sign-in")
    assert looked == []


async def test_another_place() -> None:
    """C093: a redirect elsewhere is not followed."""
    async with RudeHttp(lambda request: empty(200)) as other:
        said, _ = await told(redirect(302, other.url), empty(404))
        assert "no OAuth metadata" in said
        assert other.requests == []
