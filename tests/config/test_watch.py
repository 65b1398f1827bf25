"""That what happens to files is told, by both ways of being told."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import anyio
import pytest

from mcphub.config import watch as module
from mcphub.config.inotify import Inotify
from mcphub.config.readfile import Stamp
from mcphub.config.watch import FileNews, Way
from mcphub.config.watched import Watched, watched

pytestmark = pytest.mark.anyio

WAYS = get_args(Way)


def paths(*found: Path) -> Watched:
    return watched(Stamp(str(path)) for path in found)


def told(news: FileNews) -> bool:
    return news.told


def failed(news: FileNews) -> bool:
    return news.failed


def complete(news: FileNews) -> bool:
    return news.complete


@asynccontextmanager
async def following(way: Way, *found: Path) -> AsyncIterator[FileNews]:
    """News that is watching, with what it had to tell of before taken."""
    news = FileNews(way)
    assert news.problem
    assert not failed(news)
    news.follow(paths(*found))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(news.run)
            await news.wait()
            assert news.problem == ""
            yield news
            tasks.cancel_scope.cancel()


async def silent(news: FileNews) -> bool:
    """Nothing is told for as long as anything is held back."""
    with anyio.move_on_after(module.AT_MOST + 2 * module.STEP / 1000) as scope:
        await news.wait()
    return scope.cancelled_caught


@pytest.mark.parametrize("way", WAYS)
async def test_a_file(way: Way, tmp_path: Path) -> None:
    """Appearing, changing, being replaced and removed are told, each time; what happens beside it is not."""
    path = tmp_path / "a"
    async with following(way, path) as news:
        path.write_bytes(b"1")
        await news.wait()
        path.write_bytes(b"22")
        await news.wait()
        (tmp_path / "b").write_bytes(b"3")
        assert await silent(news)
        (tmp_path / "b").replace(path)
        await news.wait()
        path.unlink()
        await news.wait()


@pytest.mark.parametrize("way", WAYS)
async def test_following_others(way: Way, tmp_path: Path) -> None:
    """A directory that appears on the way is told, and what is in it once that is followed; what happened before it was
    followed is made good by one more look."""
    path = tmp_path / "d" / "a"
    async with following(way, path) as news:
        path.parent.mkdir()
        await news.wait()
        assert told(news)
        path.write_bytes(b"1")
        news.follow(paths(path))
        assert not told(news)
        await news.wait()
        while not await silent(news):
            pass
        path.write_bytes(b"2")
        await news.wait()


@pytest.mark.parametrize("way", WAYS)
async def test_a_file_that_is_written_all_the_time(way: Way, tmp_path: Path) -> None:
    """It is told before it is over."""
    path, over = tmp_path / "a", anyio.Event()
    async with following(way, path) as news, anyio.create_task_group() as tasks:

        async def write() -> None:
            while not over.is_set():
                path.write_bytes(b"1")
                await anyio.sleep(0.01)

        tasks.start_soon(write)
        await news.wait()
        over.set()


async def test_what_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux tells all of local files; not of those that other machines write to. The library never does."""
    async with following("inotify", tmp_path / "a") as news:
        assert complete(news)
        (tmp_path / "a").write_bytes(b"1")
        await news.wait()
        os.chmod(tmp_path / "a", 0o600)
        await news.wait()
        found = paths(tmp_path / "a", tmp_path / "d" / "b")
        (tmp_path / "d").mkdir()
        news.follow(Watched({**found.directories, **paths(tmp_path / "d" / "b").directories}, found.names, shared=True))
        await news.wait()
        assert not complete(news)
    async with following("watchfiles", tmp_path / "a") as news:
        assert not complete(news)


@pytest.mark.parametrize("way", WAYS)
async def test_a_failure(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, ends nothing, and is tried again."""
    monkeypatch.setattr(module, "AGAIN", 0.05)
    failing = anyio.Event()

    def fail(*arguments: object) -> None:
        failing.set()
        raise OSError(28, "no room")

    with monkeypatch.context() as broken:
        broken.setattr(module, "Inotify", fail)
        broken.setattr(module, "_open", fail)
        news = FileNews(way)
        news.follow(paths(tmp_path / "a"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(news.run)
            with anyio.fail_after(10):
                while not failed(news):
                    await anyio.lowlevel.checkpoint()
                assert news.problem == "no room"
                broken.undo()
                await news.wait()
                assert not failed(news)
            tasks.cancel_scope.cancel()


async def test_a_limit_that_is_reached_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be followed any more is named, and tried again."""
    monkeypatch.setattr(module, "AGAIN", 0.05)

    def fail(*arguments: object) -> None:
        raise OSError(28, "no room")

    async with following("inotify", tmp_path / "a") as news:
        (tmp_path / "d").mkdir()
        with monkeypatch.context() as full:
            full.setattr(Inotify, "follow", fail)
            news.follow(paths(tmp_path / "d" / "a"))
            assert failed(news)
            assert not complete(news)
        (tmp_path / "a").touch()  # whatever happens wakes it, and the time that it waits does too
        await news.wait()
        while failed(news):
            await news.wait()


async def test_once_more(tmp_path: Path) -> None:
    """Whoever waits can be had to look once more."""
    async with following("inotify", tmp_path / "a") as news:
        news.again()
        await news.wait()
