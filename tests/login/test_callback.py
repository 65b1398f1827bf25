"""Where a browser comes back to, on real sockets."""

from __future__ import annotations

import socket

import anyio
import pytest

from mcphub.auth.failures import FlowFailure, SignInFailed
from mcphub.auth.sign_in import Callback, Listen
from mcphub.login import pages
from mcphub.login.callback import MOST_WAITING, listening
from tests.fakes.hub import eventually
from tests.login.browser import Answer, get

pytestmark = pytest.mark.anyio

#: It is what sign-ins want.
LISTEN: Listen = listening


def port_of(callback: Callback) -> int:
    return int(callback.redirect_uri.rpartition(":")[2].partition("/")[0])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize(("page", "status"), [("done", 200), ("failed", 400), ("strange", 400)])
async def test_an_answer(host: str, page: str, status: int) -> None:
    """C100, 1.8: what came is given on as it is, in order, and the page holds nothing of it."""
    answers: list[Answer] = []
    async with listening(host, 0) as callback, anyio.create_task_group() as tasks:
        port = port_of(callback)
        assert callback.redirect_uri == f"http://{host}:{port}/callback"

        async def browse() -> None:
            answers.append(await get(port, "/callback?code=secret-c&state=%3Cb%3E&state=two&empty="))

        tasks.start_soon(browse)
        with anyio.fail_after(10):
            arrival = await callback.next()
        assert list(arrival.pairs) == [("code", "secret-c"), ("state", "<b>"), ("state", "two"), ("empty", "")]
        await arrival.answer(page)
    assert [one.status for one in answers] == [status]
    assert answers[0].page == {"done": pages.DONE, "failed": pages.FAILED, "strange": pages.STRANGE}[page]
    assert "secret-c" not in answers[0].page


async def test_what_is_not_the_callback() -> None:
    """C100: Chromium's favicon, other paths and methods are 404 and are not told; too many parameters are a stranger's;
    so are those of a crowd; whoever comes last is answered at the end."""
    answers: list[Answer] = []
    async with listening("127.0.0.1", 0) as callback:
        port = port_of(callback)
        for path in ("/favicon.ico", "/", "/callback/", "/Callback", "//callback"):
            assert (await get(port, path)).status == 404
        assert (await get(port, "/callback?code=x", method="POST")).status == 404
        async with anyio.create_task_group() as tasks:

            async def browse(query: str) -> None:
                answers.append(await get(port, f"/callback?{query}"))

            tasks.start_soon(browse, "&".join(f"a{n}=1" for n in range(40)))
            with anyio.fail_after(10):
                odd = await callback.next()
            assert list(odd.pairs) == []
            await odd.answer("strange")
            for number in range(MOST_WAITING + 1):
                tasks.start_soon(browse, f"n={number}")
            await eventually(lambda: len(answers) >= 2, timeout=10)
            assert [one.status for one in answers] == [400, 400]
            for _ in range(MOST_WAITING):
                await (await callback.next()).answer("failed")
    with pytest.raises(OSError):
        await get(port, "/callback")


async def test_a_port_that_is_taken() -> None:
    """C100: the error names the port, and where to choose another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SignInFailed, match=f"port {port}.*another program.*oauth.callbackPort") as failed:
            async with listening("127.0.0.1", port):
                raise AssertionError("it listens")
    assert failed.value.reason is FlowFailure.CALLBACK_UNAVAILABLE
    async with listening("localhost", port) as callback:
        assert callback.redirect_uri == f"http://localhost:{port}/callback"
