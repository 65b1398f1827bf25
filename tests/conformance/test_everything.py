"""The everything-server alone: both eras over HTTP and over stdio, and its questions in the caller's own way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.streams.stapled import StapledByteStream

from tests.conformance import http_client
from tests.conformance.driver import CAPABILITIES, AnsweringAgent, Run
from tests.conformance.suite import EVERYTHING, everything
from tests.fakes.agent import text

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def over_stdio(modern: bool) -> AsyncIterator[Run]:
    command = [sys.executable, "-I", str(EVERYTHING), "--stdio"]
    async with await anyio.open_process(command, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        agent = AnsweringAgent(StapledByteStream(process.stdin, process.stdout))
        if not modern:
            await agent.initialize(capabilities=CAPABILITIES)
        yield Run(agent, modern, prefix="")
        await process.stdin.aclose()
        with anyio.fail_after(5):
            await process.wait()


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_stdio(modern: bool) -> None:
    """Content, two rounds of questions, prompts and resources are the same in both eras."""
    async with over_stdio(modern) as run:
        assert len(await run.tools()) > 25
        assert "simple text" in text(await run.call("test_simple_text"))
        assert text(await run.call("test_input_required_result_multi_round")) == " likes "
        sampled = text(await run.call("test_sampling", {"prompt": "hello"}))
        assert sampled == "LLM response: an answer of the model"
        defaults = text(await run.call("test_elicitation_sep1034_defaults"))
        assert '"score": 95.5' in defaults and "action=accept" in defaults
        assert text(await run.call("test_input_required_result_request_state")) == "state-ok"
        prompt = await run.request("prompts/get", {"name": "test_input_required_result_prompt"})
        assert prompt["result"]["messages"]
        found = await run.request("resources/read", {"uri": "test://template/7/data"})
        assert '"id": "7"' in found["result"]["contents"][0]["text"]
        missing = await run.request("resources/read", {"uri": "test://nowhere"})
        assert missing["error"]["data"] == {"uri": "test://nowhere"}


async def test_http() -> None:
    """One address serves both eras; a modern caller that did not declare a capability is refused by its code."""
    async with everything() as url:
        session = await http_client.legacy_session(url)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "test_simple_text"}}
        assert "simple text" in text((await http_client.post(url, call, *session)).response)
        discovered = await http_client.modern(url, "server/discover")
        assert discovered.response["result"]["supportedVersions"] == ["2026-07-28"]
        name = "test_missing_capability"
        refused = await http_client.modern(url, "tools/call", {"name": name}, name=name)
        assert (refused.status, refused.response["error"]["code"]) == (400, -32021)
        unequal = await http_client.modern(url, "tools/call", {"name": name}, name="another")
        assert (unequal.status, unequal.response["error"]["code"]) == (400, -32020)
