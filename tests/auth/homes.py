"""Owns credentials as a daemon has them, for one test: the real vault in a directory, real sockets, the test's clock.

It must not know what is tested.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcphub import net
from mcphub.auth.bearer import BearerSigner
from mcphub.auth.credential import Credential
from mcphub.auth.credentials import Credentials
from mcphub.auth.records import TokenSet
from mcphub.spec import HttpSpec, IdpSpec, OAuthSpec, Origin, Scope, Secret, ServerSpec
from mcphub.store.challenges import ChallengeStore
from mcphub.store.vault import Vault
from tests.fakes.rude_as import Family, RudeAs
from tests.fakes.rude_http import encoded

CALL = encoded({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}})
HEADERS = [(b"Content-Type", b"application/json"), (b"Accept", b"application/json, text/event-stream")]
OAUTH = OAuthSpec(client_id="cid")


class Clock:
    """A wall clock that both sides look at."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


class Hub:
    """`log` are (level, text); `hidden` what was said to be secret."""

    def __init__(self, directory: Path, clock: Clock, idp: IdpSpec | None = None) -> None:
        self.directory = directory
        self.log: list[tuple[str, str]] = []
        self.hidden: list[str] = []
        self.changes = 0
        self.vault = Vault(str(directory / "vault" / "vault"), f"file:{directory / 'vault.key'}", {})
        self.credentials = Credentials(
            self.vault,
            ChallengeStore(str(directory / "challenges.json")),
            str(directory / "turns"),
            lambda: idp,
            self._printed,
            dict,
            self._hide,
            lambda level, text: self.log.append((level, text)),
            clock,
        )
        self.credentials.listeners.append(lambda account: self._changed())

    def of(self, spec: ServerSpec) -> Credential:
        credential = self.credentials.of(spec)
        assert credential is not None
        return credential

    async def _printed(self, words: Sequence[str], within: float, most: int) -> str:
        raise AssertionError(words)

    def _hide(self, *values: str, owner: str = "") -> None:
        self.hidden += values

    def _changed(self) -> None:
        self.changes += 1


@asynccontextmanager
async def hub(directory: Path, clock: Clock, idp: IdpSpec | None = None) -> AsyncIterator[Hub]:
    """A daemon's credentials, until they are drained."""
    made = Hub(directory, clock, idp)
    os.makedirs(directory / "vault", mode=0o700, exist_ok=True)
    await made.vault.open()
    async with anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(made.credentials.run, started)
        await started.wait()
        yield made
        await made.credentials.drain()
        tasks.cancel_scope.cancel()


def server(url: str, oauth: OAuthSpec = OAUTH, name: str = "s", **more: Any) -> ServerSpec:
    return ServerSpec(name, Origin(Scope.USER, "/mcp.json", name), HttpSpec(Secret(url), oauth=oauth), **more)


def tokens(auth: RudeAs, family: Family, clock: Clock, **more: Any) -> TokenSet:
    """A person's sign-in, as it is kept."""
    made: dict[str, Any] = {
        "resource": auth.resources[0],
        "obtained_at": clock(),
        "expires_at": clock() + auth.life,
        "refresh_token": Secret(family.refresh),
        "requested": tuple(family.scopes.split()),
        "granted": tuple(family.scopes.split()),
        "revocation_endpoint": f"{auth.origin}/revoke",
        "client_method": "none",
    }
    place = more.pop("token_endpoint", f"{auth.origin}/token")
    return TokenSet(Secret(family.access), auth.issuer, family.client, place, **{**made, **more})


@asynccontextmanager
async def client(credential: Credential) -> AsyncIterator[net.HttpClient]:
    """One connection to the server of this credential."""
    url = str(credential.account.url)
    async with net.http_client(url, {}, signer=BearerSigner(credential)) as made:
        yield made


async def call(made: net.HttpClient) -> int:
    """One call of a tool; its status."""
    async with made.exchange("POST", HEADERS, CALL) as answer:
        await answer.read(1 << 20)
        return answer.status
