"""The loop of a daemon that runs servers of its own process."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from mcphub.transport.in_process_loop import InProcessLoop

ENDS = [SystemExit(3), KeyboardInterrupt("x"), GeneratorExit("y")]


def throw(error: BaseException) -> None:
    raise error


async def thrown(error: BaseException) -> None:
    await asyncio.sleep(0)
    throw(error)


@pytest.mark.parametrize("error", ENDS)
def test_what_ends_a_program_ends_its_task(error: BaseException) -> None:
    """Whoever awaits the task that raised it gets it; all else that was ready is run, and what follows."""
    reported: list[BaseException] = []
    others: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(thrown(error))
        for n in range(3):
            loop.call_soon(others.append, n)
        with pytest.raises(type(error)) as caught:
            await task
        assert caught.value is error
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=partial(InProcessLoop, reported.append)) as runner:
        runner.run(main())
    assert others == [0, 1, 2]
    assert reported == ([] if isinstance(error, GeneratorExit) else [error])


def test_what_ends_a_program_ends_its_callback() -> None:
    """Also in the turn of the loop in which its run comes to an end."""
    reported: list[BaseException] = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.call_soon(throw, ENDS[0])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loop.call_soon(loop.call_soon, throw, ENDS[1])  # behind the end of this task, in front of the stop
        loop.call_soon(loop.call_soon, loop.call_soon, throw, ENDS[1])
        return "done"

    with asyncio.Runner(loop_factory=partial(InProcessLoop, reported.append)) as runner:
        assert runner.run(main()) == "done"
        assert runner.run(asyncio.sleep(0, "again")) == "again"
    assert reported == [ENDS[0], ENDS[1], ENDS[1]]
