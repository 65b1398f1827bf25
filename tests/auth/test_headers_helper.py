"""When a headers helper is run: for each connection, and once more where what it gave is refused."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from mcphub.auth import headers_helper
from mcphub.auth.headers_helper import HeadersHelper, Ran
from mcphub.errors import TransportError
from mcphub.spec import HelperSpec, HttpSpec, Origin, Scope, Secret, ServerSpec

pytestmark = pytest.mark.anyio
HELPER = HelperSpec((Secret("token"), Secret("--fresh")), "token --fresh")


class Runs:
    """Stands in for running the program: prints token after token, or fails."""

    def __init__(self) -> None:
        self.count = 0
        self.asked: list[tuple[Sequence[str], str]] = []
        self.fault: TransportError | None = None
        self.output = b""
        self.stderr: tuple[str, ...] = ()
        self.hidden: list[str] = []
        self.notes: list[str] = []

    async def __call__(self, words: Sequence[str], env: dict[str, str], cwd: str, within: float, most: int) -> Ran:
        self.count += 1
        self.asked.append((words, cwd))
        await anyio.lowlevel.checkpoint()
        return Ran(self.fault or self.output or b'{"Authorization": "Bearer token-%d"}' % self.count, self.stderr)

    def helper(self) -> HeadersHelper:
        spec = ServerSpec("s", Origin(Scope.USER, "/mcp.json", "mcpServers.s", 3), HttpSpec(Secret("https://h/")))
        hide = self.hidden.extend
        return HeadersHelper(
            spec, HELPER, "https://h/", lambda: {"HOME": "/u"}, self, self.notes.append, lambda *v: hide(v)
        )


def sent(number: int) -> list[tuple[bytes, bytes]]:
    return [(b"Authorization", b"Bearer token-%d" % number)]


async def refused_once(helper: HeadersHelper, version: int) -> bool:
    """A request with what it gave as this version was refused; whether there is something else now."""
    return await helper.renewed(version, 401, ())


async def test_it_is_run_for_a_connection() -> None:
    """With its words as they are, at home where the entry has no other place; its values are hidden."""
    runs = Runs()
    helper = runs.helper()
    await helper.begin()
    assert helper.headers == sent(1)
    assert runs.asked == [(["token", "--fresh"], "/u")]
    assert runs.hidden == ["Bearer token-1", "token-1"]


async def test_refusals_at_once_share_one_run() -> None:
    """C116: ten requests that are refused together run it once, and all have the new headers."""
    runs = Runs()
    helper = runs.helper()
    await helper.begin()
    before, answers = helper.version(), []

    async def refused() -> None:
        answers.append(await refused_once(helper, before))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(refused)
    assert answers == [True] * 10
    assert (runs.count, helper.headers) == (2, sent(2))


async def test_a_run_that_is_given_up() -> None:
    """Where the request that runs it is cancelled, the next one that waits runs it."""
    runs = Runs()
    helper = runs.helper()
    await helper.begin()
    before, answers = helper.version(), []

    async def refused() -> None:
        answers.append(await refused_once(helper, before))

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as given_up:
            given_up.cancel()
            await refused_once(helper, before)
        tasks.start_soon(refused)
    assert answers == [True]


async def test_it_is_not_run_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """C116: where what it gave anew is refused too it is not run again for a while, until something was accepted."""
    runs = Runs()
    helper = runs.helper()
    await helper.begin()
    assert await refused_once(helper, helper.version())
    assert not await refused_once(helper, helper.version())
    assert runs.count == 2
    helper.accepted()
    assert await refused_once(helper, helper.version())
    assert not await refused_once(helper, helper.version())
    monkeypatch.setattr(headers_helper, "REST", 0.0)
    assert await refused_once(helper, helper.version())
    assert runs.count == 4


async def test_its_failures() -> None:
    """The place of the entry is named, and where to read on; at a later run it is noted and the old headers stay."""
    runs = Runs()
    helper = runs.helper()
    await helper.begin()
    runs.fault = TransportError("exited with code 3", kind="spawn")
    assert not await refused_once(helper, helper.version())
    said = "cannot get the headers of s: its helper (/mcp.json:3 mcpServers.s.headersHelper): exited with code 3; see "
    assert runs.notes == [said + "`mcphub logs s`"]
    assert helper.headers == sent(1)
    runs.fault, runs.output = None, b"nonsense"
    with pytest.raises(TransportError, match="its output is not JSON; it must print one JSON object"):
        await runs.helper().begin()
    runs.output = b'{"Host": "x", "A": " y "}'
    third = runs.helper()
    await third.begin()
    assert third.headers == [(b"A", b"y")]
    runs.output, runs.stderr, hidden = b"", ("using token-9",), len(runs.hidden)
    await runs.helper().begin()
    assert len(runs.hidden) == hidden + 2
    assert runs.notes.pop() == "headersHelper: using token-9"
    assert runs.notes[1:] == ["headersHelper: mcphub sets Host itself, so this value is not used"]
