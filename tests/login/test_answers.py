"""What people are answered who sign in or out, against a real authorization server of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.auth.failures import FlowFailure
from mcphub.auth.home import IDP_LOGIN
from mcphub.auth.records import IdpSession, TokenSet, encoded, idp_key
from mcphub.errors import ControlError
from mcphub.login.answers import Answers
from mcphub.login.logins import Logins
from mcphub.spec import IdpSpec, OAuthSpec, Secret
from tests.auth import homes
from tests.login.test_logins import world

pytestmark = pytest.mark.anyio


async def test_answers(tmp_path: Path) -> None:
    """What a person is told step by step; silence is a heartbeat; nobody in time is `timed_out`; who leaves ends it."""
    async with world(tmp_path, patience=0.3) as w:
        specs = [w.spec(), homes.server(w.url, OAuthSpec(mode="client_credentials", client_id="c"), "itself")]
        answers = Answers(w.logins, lambda workspace, name: [one for one in specs if name in (None, one.name)])
        reports = [report async for report in answers.login("", "far", 0.05)]
        states = [report["state"] for report in reports if report is not None]
        assert states == ["starting", "waiting", "failed"] and None in reports
        assert reports[-1] is not None and reports[-1]["reason"] == "timed_out"
        with pytest.raises(ControlError, match="no sign-in to far waits"):
            answers.paste("", "far", "http://x/")
        assert [r and r["how"] async for r in answers.login("", "itself", 1)] == ["none"]
        assert w.woken == 1

        left = answers.login("", "far", 1)
        assert (await anext(left)) is not None
        assert (await anext(left)) is not None
        sign_in = w.logins.of_server(w.hub.of(specs[0]))
        assert sign_in is not None
        with pytest.raises(ControlError, match="longer than"):
            answers.paste("", "far", "x" * 20_000)
        await left.aclose()
        await sign_in.over.wait()
        assert sign_in.failure is not None and sign_in.failure.reason is FlowFailure.CANCELLED

        await w.hub.credentials.safe.put("tokens", "of-an-entry-that-is-gone", b"{}")
        assert await answers.logout("", None) == {"signed_out": [], "others": 1}
        assert await answers.logout("", "far") == {"signed_out": []}


async def test_signing_out_of_what_needs_nobody(tmp_path: Path) -> None:
    """A server that gets its tokens by itself says that it does so again; with the organisation's login gone those that
    take it say that they need one, at once, and a login there ends that."""
    clock = homes.Clock()
    provider = IdpSpec("https://idp.example", "mcphub")
    async with homes.hub(tmp_path, clock, provider) as hub:
        woken: list[None] = []
        logins = Logins(hub.credentials, lambda: "", lambda: woken.append(None))
        itself = homes.server("https://m.example/a", OAuthSpec(mode="client_credentials", client_id="c"), "itself")
        pay = homes.server("https://m.example/b", OAuthSpec(mode="xaa", client_id="c"), "pay")
        other = homes.server("https://m.example/c", OAuthSpec(mode="xaa", client_id="c"), "other")
        specs = [itself, pay, other]
        answers = Answers(logins, lambda workspace, name: [one for one in specs if name in (None, one.name)])
        kept = IdpSession(provider.issuer, "mcphub", Secret("i"), "me", clock() + 600, "https://idp.example/token")
        await hub.vault.put("idp", idp_key(provider.issuer, "mcphub"), encoded(kept))
        had = TokenSet(Secret("a"), "https://as.example", "c", "https://as.example/token", resource="https://m.example")
        for spec in (itself, pay):
            await hub.of(spec).take(had)
            report = await answers.logout("", spec.name)
            assert report["signed_out"] == [{"name": spec.name, "revoked": None, "again": True}]
            await hub.of(spec).take(had)
        await hub.of(other).load()
        report = await answers.logout("", None)
        assert {one["name"]: one["again"] for one in report["signed_out"]} == {"itself": True, "pay": False}
        assert "idp" in report and hub.of(itself).shown is None
        for spec in (pay, other):
            need = hub.of(spec).shown
            assert need is not None and need.how == IDP_LOGIN, spec.name
        assert hub.of(pay).ended is not None and hub.of(other).ended is None
        hub.of(pay).with_login()
        assert hub.of(pay).shown is None and hub.of(pay).ended is None
