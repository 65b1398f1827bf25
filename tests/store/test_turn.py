"""Whose turn it is, among tasks and real processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from mcphub.store.turn import Busy, turn

pytestmark = pytest.mark.anyio

HOLDS = """
import sys, anyio
from mcphub.store.turn import turn
async def main():
    async with turn(sys.argv[1], "k"):
        print("mine", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


async def test_one_at_a_time(tmp_path: Path) -> None:
    """Of one key one holds it; another key is nobody else's business."""
    inside = 0
    most = 0

    async def one() -> None:
        nonlocal inside, most
        async with turn(str(tmp_path / "locks"), "k"):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(one)
    assert most == 1
    async with turn(str(tmp_path / "locks"), "k"), turn(str(tmp_path / "locks"), "other"):
        with pytest.raises(Busy):
            async with turn(str(tmp_path / "locks"), "k", patience=0.0):
                pass
    assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700


async def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """C108: what it held is free at once."""
    async with await anyio.open_process([sys.executable, "-c", HOLDS, str(tmp_path)], env={**os.environ}) as process:
        assert process.stdout is not None
        with anyio.fail_after(20):
            assert (await process.stdout.receive()).startswith(b"mine")
        with pytest.raises(Busy):
            async with turn(str(tmp_path), "k", patience=0.0):
                pass
        process.kill()
        await process.wait()
        with anyio.fail_after(5):
            async with turn(str(tmp_path), "k"):
                pass


async def test_whoever_leaves_holds_nothing(tmp_path: Path) -> None:
    """One that waits and is cancelled, and one that fails inside."""
    async with turn(str(tmp_path), "k"):
        with anyio.move_on_after(0.0):
            async with turn(str(tmp_path), "k"):
                raise AssertionError
    with pytest.raises(ValueError):
        async with turn(str(tmp_path), "k"):
            raise ValueError
    async with turn(str(tmp_path), "k", patience=0.0):
        pass


async def test_no_file_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full or read-only disk the directory itself serves: for all of them alike."""
    real = os.open

    def full(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return real(path, flags, mode)

    monkeypatch.setattr("mcphub.store.turn.os.open", full)
    async with turn(str(tmp_path), "k"):
        with pytest.raises(Busy):
            async with turn(str(tmp_path), "k", patience=0.0):
                pass


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """What somebody else put there does not choose what is opened."""
    (tmp_path / "k.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        async with turn(str(tmp_path), "k"):
            pass
    assert not (tmp_path / "elsewhere").exists()
