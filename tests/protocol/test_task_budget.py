"""What an agent says of its task."""

from __future__ import annotations

import pytest

from mcphub.protocol.envelope import NO_META, InvalidMeta, read_request_meta, request_meta
from mcphub.protocol.task_budget import Task, read_task


@pytest.mark.parametrize(
    ("raw", "task"),
    [
        (b'{"id":"t"}', Task("t")),
        (b'{"id":"t","deadline":1790000000000,"calls":5}', Task("t", 1790000000000, 5)),
        (b'{"id":"t","deadline":1.5,"later":[1]}', Task("t", 1.5)),
        (b'{"id":"t","deadline":null,"calls":0}', Task("t", None, 0)),
        (b'{"id":"t","deadline":0}', Task("t", 0)),
    ],
)
def test_a_task(raw: bytes, task: Task) -> None:
    """What is not known is no error: it may be said to somebody else."""
    assert read_task(raw) == task


@pytest.mark.parametrize(
    "raw",
    [
        b"5", b"null", b"{}", b'{"id":5}', b'{"id":""}', b'{"id":"' + b"x" * 129 + b'"}', b'{"id":"t","calls":-1}',
        b'{"id":"t","calls":1.5}', b'{"id":"t","deadline":-1}', b'{"id":"t","deadline":"soon"}', b"[" * 10000,
    ],
)
def test_what_is_none(raw: bytes) -> None:
    """The error names the key; a request with it is refused, and not taken for one without a budget."""
    with pytest.raises(ValueError, match=r"^dev\.mcphub/task: "):
        read_task(raw)
    if raw != b"[" * 10000:
        with pytest.raises(InvalidMeta, match=r"^dev\.mcphub/task: "):
            read_request_meta(b'{"dev.mcphub/task":%b}' % raw)


def test_it_goes_no_further() -> None:
    """No server sees it, and a request that says nothing else of itself says nothing there."""
    meta = read_request_meta(b'{"dev.mcphub/task":{"id":"t","calls":1},"com.example/x":1}')
    assert meta.budget == Task("t", calls=1)
    assert request_meta(False, meta, 1) == b',"_meta":{"com.example/x":1}'
    assert request_meta(False, read_request_meta(b'{"dev.mcphub/task":{"id":"t"}}'), 1) == b""


def test_nothing_else_said_to_mcphub_goes_further() -> None:
    """The whole namespace is of this hop, however a key is written."""
    meta = read_request_meta(b'{"dev.mcphub/other":1,"dev.mcp\\u0068ub/x":2,"foo":3,"com.x/secret":4}')
    assert request_meta(False, meta, 1) == b',"_meta":{"foo":3,"com.x/secret":4}'
    assert read_request_meta(b'{"dev.mcphub/other":1}') is NO_META


def test_it_is_read_once() -> None:
    """A deadline is a moment and no distance to it, so that it is the same in each request."""
    raw = b'{"dev.mcphub/task":{"id":"t","deadline":1790000000000}}'
    assert read_request_meta(raw) is read_request_meta(bytes(bytearray(raw)))
