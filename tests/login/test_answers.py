"""What people are answered who sign in or out, against a real authorization server of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.auth.failures import FlowFailure
from mcphub.errors import ControlError
from mcphub.login.answers import Answers
from mcphub.spec import OAuthSpec
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
