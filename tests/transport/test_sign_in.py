"""What a person is told of a server that wants credentials, over real sockets."""

from __future__ import annotations

from collections.abc import Sequence

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


class Unsigned:
    """Implements net.Signer for a server that a person could sign in to, and has not."""

    tries = 0
    login = "mcphub login s"
    due = False
    none = False

    async def ready(self) -> None:
        pass

    def version(self) -> int:
        return 0

    def headers_for(self, method: str, url: str) -> Sequence[tuple[bytes, bytes]]:
        return ()

    def accepted(self) -> None:
        pass

    def noticed(self, nonce: str) -> None:
        pass

    async def renewed(self, version: int, status: int, challenges: Sequence[str]) -> bool:
        return False

    def unoffered(self) -> None:
        self.none = True

    def told(self, message: str) -> tuple[str, str] | None:
        return None


async def told(
    first: Answer, second: Answer, refusal: Refusal = REFUSED, **others: Answer
) -> tuple[str, list[str]]:
    """What is said of a server with these answers below its path and at the root, and where it was looked. `others`
    are those at other well-known places, `_` for `-`."""
    more = {f"/.well-known/{name.replace('_', '-')}": answer for name, answer in others.items()}
    answers = {f"{KNOWN}/mcp": first, KNOWN: second}

    def ordinary(request: Request) -> Reply:
        found = answers.get(request.path, more.get(request.path, empty(404)))
        return found(request) if callable(found) else found

    async with RudeHttp(ordinary) as server:
        async with http_client(server.url, {}, signer=Unsigned()) as client:
            said = await explained(client, server.url, refusal)
        assert {request.method for request in server.requests} <= {"GET"}
        assert {request.header("Authorization") for request in server.requests} <= {None}
        return said, [request.path for request in server.requests]


@pytest.mark.parametrize("status", [404, 401, 403, 405])
async def test_a_document_at_the_root(status: int) -> None:
    """C093: whatever 4xx the first place answers with, the second is asked; what it names is told."""
    said, looked = await told(empty(status), lambda r: body(document(r)))
    assert said.startswith("needs a sign-in: mcphub login s (") and "sign-in at https://as.example" in said
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


async def test_a_server_of_the_first_revision() -> None:
    """C096: it says nothing of itself, but is its own authorization server; what is a page for everything is none."""
    metadata = body(encoded({"issuer": "http://x", "authorization_endpoint": "http://x/a"}))
    said, looked = await told(empty(404), empty(404), oauth_authorization_server=metadata)
    assert said.startswith("needs a sign-in: mcphub login s (") and said.endswith("sign-in at the server itself)")
    assert looked == [f"{KNOWN}/mcp", KNOWN, "/.well-known/oauth-authorization-server"]
    said, _ = await told(empty(404), empty(404), openid_configuration=metadata)
    assert said.startswith("needs a sign-in")
    for page in (body(b"<html>", "text/html"), body(b"{}"), body(b"[]"), empty(401)):
        said, looked = await told(empty(404), empty(404), oauth_authorization_server=page)
        assert "no OAuth metadata" in said and len(looked) == 4


async def test_that_there_is_none_is_known() -> None:
    """C093: the second: whoever signs is told, so that nobody is sent to a sign-in that there is not."""
    for first, none in ((empty(404), True), (empty(500), False)):
        signer = Unsigned()
        async with RudeHttp(lambda _, answer=first: answer) as server, http_client(  # type: ignore[misc]
            server.url, {}, signer=signer
        ) as client:
            await explained(client, server.url, REFUSED)
        assert signer.none is none


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
    assert said.startswith("needs a sign-in: mcphub login s (") and part in said
    assert looked == [f"{KNOWN}/mcp"]


async def test_a_challenge_says_it() -> None:
    """C093: a server that names its document needs no looking."""
    challenge = 'Bearer resource_metadata="https://m.example/meta"'
    said, looked = await told(empty(404), empty(404), Refusal("needs_auth", "HTTP 401", challenge=challenge))
    assert said.startswith("needs a sign-in: mcphub login s (")
    assert looked == []


async def test_another_place() -> None:
    """C093: a redirect elsewhere is not followed."""
    async with RudeHttp(lambda request: empty(200)) as other:
        said, _ = await told(redirect(302, other.url), empty(404))
        assert "no OAuth metadata" in said
        assert other.requests == []
