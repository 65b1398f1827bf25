"""A person with a real browser (Chromium): from the page that an agent's call leads to, over the organisation's own
pages, to the end of the sign-in."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tests.fakes.agent import LEGACY
from tests.fakes.authorities import ROOT, node, oidc, signed
from tests.fakes.hub import Place, running

pytestmark = [pytest.mark.anyio, pytest.mark.counterparts]

BROWSER = ROOT / "tests" / "counterparts" / "browser.mjs"
SUBMIT = "button[type=submit]"
#: Headers of each page of mcphub's.
GUARDS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no Chromium is installed: run `sh scripts/test`"
    return found


async def visited(url: str, steps: list[dict[str, Any]], shots: Path) -> dict[str, Any]:
    """What a browser saw on its way; see counterparts/browser.mjs."""
    job = {"chromium": chromium(), "url": url, "steps": steps, "shots": str(shots / "page")}
    with anyio.fail_after(60):
        done = await anyio.run_process(
            [node(), str(BROWSER), json.dumps(job)], check=False, stderr=subprocess.PIPE, env={"HOME": str(shots)}
        )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_from_an_agent_to_the_end(place: Place, tmp_path: Path) -> None:
    """S7, S16: a call to a server that needs a sign-in leads an agent that can open pages to mcphub's own; that says
    which server and whose page comes next, and goes on only when the person says so. Both pages of mcphub load nothing,
    run nothing, and tell nobody where they were; then the same call works."""
    async with (
        oidc({"as": {}}) as issuers,
        signed({"guarded": {"issuer": issuers.urls["as"]}}) as far,
        running(
            {"guarded": {"type": "http", "url": far.urls["guarded"]}},
            settings=f'[vault]\nkey = "file:{place.root / "key"}"\n[oauth]\nnotify = false\n',
            place=place,
        ) as hub,
        await hub.agent() as agent,
    ):
        await agent.initialize(LEGACY, {"elicitation": {"url": {}}})
        await hub.until_state("guarded", state="needs-auth")
        error = (await agent.call("mcp__guarded__whoami"))["error"]
        assert error["code"] == -32042, error
        url = error["data"]["elicitations"][0]["url"]
        assert urlsplit(url).hostname == "127.0.0.1"
        login = {"input[name=login]": "ada", "input[name=password]": "x"}
        steps: list[dict[str, Any]] = [{"click": "a[role=button]"}, {"fill": login, "click": SUBMIT}, {"click": SUBMIT}]
        seen = await visited(url, steps, tmp_path)
        first, *theirs, last = seen["pages"]
        host = urlsplit(issuers.urls["as"]).netloc
        assert first["status"] == 200 and "guarded" in first["text"] and f"Go on to {host}" in first["text"]
        assert [urlsplit(page["url"]).netloc for page in theirs] == [host, host]
        assert last["status"] == 200 and last["title"] == "Signed in" and "close this window" in last["text"]
        assert urlsplit(last["url"]).path == "/callback"
        for page in (first, last):
            assert GUARDS.items() <= page["headers"].items()
            assert "code=" not in page["text"] and "state=" not in page["text"]
        assert first["requests"] == [url]
        assert last["requests"][-1] == last["url"]
        assert {urlsplit(one).netloc for one in last["requests"]} == {host, urlsplit(last["url"]).netloc}
        await hub.until_state("guarded")
        result = (await agent.call("mcp__guarded__whoami"))["result"]
        assert json.loads(result["content"][0]["text"])["sub"] == "ada"
