"""Owns MCP servers (official SDK) that want a token of an authorization server with every request.

It must not know mcphub. `signed_mcp.py JOB`, JOB being JSON {NAME: {issuer, path, scopes, client, dpop}}, prints
{NAME: URL}, then one line {name, tool, sub, client, jti} for each call of a tool. Tools: `whoami` (who the token is of)
and `write`, for which the server wants the scope `mcp:write`. It ends with its stdin.

`path` is where it stands (default /mcp). Tokens are JWTs and checked by the issuer's keys, or where there is a `client`
(ID:SECRET) the issuer is asked about each.
`dpop`: tokens are bound to a key; `nonce` wants one of this server in each proof as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import uvicorn
from joserfc import jws, jwt
from joserfc.jwk import KeySet, import_key
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NONCE = "a-nonce-of-this-server"
WRITE = "mcp:write"
ALGORITHMS = ["ES256", "RS256"]


def log(**line: object) -> None:
    print(json.dumps(line), flush=True)


def now() -> float:
    return time.time_ns() / 1e9


class Verifier:
    """Judges a token by its issuer's keys, or by asking the issuer."""

    def __init__(self, issuer: str, resource: str, client: str) -> None:
        self.issuer, self.resource, self.client = issuer, resource, client
        self._keys: KeySet | None = None

    async def verify_token(self, token: str) -> AccessToken | None:
        claims = await (self._asked(token) if self.client else self._read(token))
        audience = claims.get("aud", ())
        mine = self.resource in ([audience] if isinstance(audience, str) else audience)
        if claims.get("iss") != self.issuer or claims.get("exp", 0) <= now() or not mine:
            return None
        scopes = claims.get("scope", "").split()
        return AccessToken(
            token=token, client_id=claims["client_id"], scopes=scopes, expires_at=int(claims["exp"]),
            resource=self.resource, subject=claims.get("sub"), claims=dict(claims),
        )

    async def _read(self, token: str) -> Mapping[str, Any]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            if self._keys is None:
                self._keys = KeySet.import_key_set((await client.get(f"{self.issuer}/jwks")).json())
        try:
            return jwt.decode(token, self._keys, algorithms=ALGORITHMS).claims
        except ValueError:
            return {}

    async def _asked(self, token: str) -> Mapping[str, Any]:
        name, _, secret = self.client.partition(":")
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{self.issuer}/token/introspection", data={"token": token}, auth=(name, secret)
            )
        found: Mapping[str, Any] = answer.json()
        return found if found.get("active") else {}


class Gate:
    """What the SDK has no word for: a scope that one tool wants, and proofs of a key (RFC 9449)."""

    def __init__(self, app: ASGIApp, verifier: Verifier, url: str, dpop: str) -> None:
        self.app, self.verifier, self.url, self.dpop = app, verifier, url, dpop
        self.seen: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != urlsplit(self.url).path:
            if self.dpop and scope["type"] == "http":
                send = _with_flag(send)
            await self.app(scope, receive, send)
            return
        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        scheme, _, token = next((value for name, value in headers if name == b"authorization"), "").partition(" ")
        if self.dpop:
            proofs = [value for name, value in headers if name == b"dpop"]
            error = "" if not token else await self._fault(scheme, token, proofs, scope["method"])
            if not token or error:
                await self._refuse(send, 401, "DPoP", error)
                return
            kept = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
            scope = {**scope, "headers": [*kept, (b"authorization", b"Bearer " + token.encode())]}
        body, receive = await _whole(receive)
        if b'"write"' in body and token:
            found = await self.verifier.verify_token(token)
            if found is not None and WRITE not in found.scopes:
                await self._refuse(send, 403, scheme, "insufficient_scope", WRITE)
                return
        await self.app(scope, receive, send)

    async def _fault(self, scheme: str, token: str, proofs: list[str], method: str) -> str:
        if scheme != "DPoP" or len(proofs) != 1:
            return "invalid_token"
        found = await self.verifier.verify_token(token)
        if found is None or found.claims is None:
            return "invalid_token"
        try:
            header = jws.extract_compact(proofs[0].encode()).headers()
            key = import_key(header["jwk"])
            claims = jwt.decode(proofs[0], key, algorithms=["ES256"]).claims
        except (ValueError, KeyError):
            return "invalid_dpop_proof"
        digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        right = (
            header.get("typ") == "dpop+jwt" and "d" not in header["jwk"] and claims["htm"] == method
            and claims["htu"] == self.url and claims["ath"] == digest and abs(now() - claims["iat"]) < 60
            and claims["jti"] not in self.seen and found.claims["cnf"]["jkt"] == key.thumbprint()
        )
        if not right:
            return "invalid_dpop_proof"
        if self.dpop == "nonce" and claims.get("nonce") != NONCE:
            return "use_dpop_nonce"
        self.seen.add(claims["jti"])
        return ""

    async def _refuse(self, send: Send, status: int, scheme: str, error: str, scopes: str = "") -> None:
        parts = urlsplit(self.url)
        place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
        words = [f'resource_metadata="{place}"']
        words += [f'error="{error}"'] if error else []
        words += [f'scope="{scopes}"'] if scopes else []
        headers = [(b"www-authenticate", f"{scheme} {', '.join(words)}".encode())]
        if error == "use_dpop_nonce":
            headers.append((b"dpop-nonce", NONCE.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _with_flag(send: Send) -> Send:
    """Its metadata says that tokens are bound."""
    start: list[Message] = []

    async def changed(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.append(message)
            return
        body = message.get("body", b"")
        try:
            body = json.dumps({**json.loads(body), "dpop_bound_access_tokens_required": True}).encode()
        except (ValueError, TypeError):
            pass
        head = start[0]
        kept = [(name, value) for name, value in head["headers"] if name != b"content-length"]
        await send({**head, "headers": [*kept, (b"content-length", str(len(body)).encode())]})
        await send({**message, "body": body})

    return changed


async def _whole(receive: Receive) -> tuple[bytes, Receive]:
    """The body, and a way to read it once more."""
    messages: list[Message] = []
    while True:
        messages.append(await receive())
        if messages[-1]["type"] != "http.request" or not messages[-1].get("more_body"):
            break
    body = b"".join(message.get("body", b"") for message in messages)

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return body, again


def server(name: str, job: Mapping[str, Any], url: str) -> ASGIApp:
    verifier = Verifier(job["issuer"], url, job.get("client", ""))
    settings = AuthSettings.model_validate(
        {
            "issuer_url": job["issuer"],
            "resource_server_url": url,
            "required_scopes": job.get("scopes", ["mcp:read"]),
            "validate_token_resource": True,
        }
    )
    served = MCPServer(name, token_verifier=verifier, auth=settings, log_level="ERROR")

    def told(tool: str) -> str:
        token = get_access_token()
        assert token is not None
        claims = token.claims or {}
        line = {"tool": tool, "sub": token.subject, "client": token.client_id, "jti": claims.get("jti")}
        log(name=name, **line)
        return json.dumps(line)

    @served.tool()
    def whoami() -> str:
        """Who the token is of."""
        return told("whoami")

    @served.tool()
    def write() -> str:
        """Wants a scope of its own."""
        return told("write")

    app = served.streamable_http_app(streamable_http_path=urlsplit(url).path)
    return Gate(app, verifier, url, job.get("dpop", ""))


async def main() -> None:
    job = json.loads(sys.argv[1])
    urls: dict[str, str] = {}
    servers: list[uvicorn.Server] = []
    async with anyio.create_task_group() as tasks:
        for name, wanted in job.items():
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            urls[name] = f"http://127.0.0.1:{listener.getsockname()[1]}{wanted.get('path', '/mcp')}"
            app = server(name, wanted, urls[name])
            config = uvicorn.Config(app, http="h11", ws="none", log_level="warning", timeout_graceful_shutdown=1)
            servers.append(uvicorn.Server(config))
            tasks.start_soon(servers[-1]._serve, [listener])
        log(**urls)
        await anyio.to_thread.run_sync(sys.stdin.read)
        for one in servers:
            one.should_exit = True


if __name__ == "__main__":
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    anyio.run(main)
