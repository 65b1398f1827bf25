"""The shapes of tasks, how often one is asked for, and the seal of their ids."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol import tasks
from mcphub.protocol.envelope import read_request_meta
from mcphub.protocol.jsonrpc import Raw

KEY, NONCE = b"k" * 32, b"n" * 12
EXTENSION = "io.modelcontextprotocol/tasks"

NO_TASKS: list[Any] = [
    [], "x", 5, {}, {"taskId": "x"}, {"status": "working"}, {"taskId": 1, "status": "working"},
    {"taskId": "", "status": "working"}, {"taskId": "x" * (tasks.MAX_ID + 1), "status": "working"},
    {"taskId": "x", "status": None}, {"taskId": "x", "status": "input_required", "inputRequests": []},
]  # fmt: skip


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("bad", NO_TASKS)
def test_what_is_no_task(bad: Any) -> None:
    """It raises, and nothing else."""
    for read in (tasks.read, tasks.read_old):
        with pytest.raises(tasks.NotATask):
            read(encoded(bad))


def test_how_a_task_is() -> None:
    """What matters of it is read in both eras; what is for people only may be anything."""
    one = tasks.read(b'{"taskId":"x","status":"failed","statusMessage":5,"pollIntervalMs":1500,"error":{"code":1}}')
    assert (one.id, one.status, one.message, one.interval, one.ended) == ("x", "failed", "", 1.5, True)
    assert bytes(one.error) == b'{"code":1}' and not one.result
    two = tasks.read(b'{"taskId":"x","status":"input_required","inputRequests":{"k":{}},"statusMessage":"m"}')
    assert (two.message, two.interval, two.ended, list(two.inputs)) == ("m", None, False, ["k"])
    assert tasks.read(b'{"taskId":"x","status":"working","inputRequests":{"k":{}}}').inputs == {}
    assert tasks.read_old(b'{"taskId":"x","status":"working","pollInterval":200}').interval == 0.2
    made = tasks.read_old_made(b'{"task":{"taskId":"x","status":"working","pollInterval":200}}')
    assert made is not None and made.id == "x"
    assert tasks.read_old_made(b'{"content":[],"task":{"taskId":"x","status":"working"}}') is None
    assert tasks.read_old_made(b'{"content":[]}') is None


INTERVALS: list[tuple[str, float | None]] = [
    ("1000", 1.0), ("0.5e3", 0.5), ("0", None), ("-5", None), ("null", None), ('"x"', None), ("1e999", None),
    ("[]", None), ("1e300", 1e297),
]  # fmt: skip


@pytest.mark.parametrize(("said", "found"), INTERVALS)
def test_the_interval(said: str, found: float | None) -> None:
    """What is no length of time counts as nothing said."""
    try:
        task = tasks.read(b'{"taskId":"x","status":"working","pollIntervalMs":%b}' % said.encode())
    except tasks.NotATask:
        assert said == "1e999"  # no JSON of ours
        return
    assert task.interval == pytest.approx(found)


def test_the_pause() -> None:
    """B76: what a server says counts, within bounds; without a word it is asked ever more slowly."""
    assert tasks.pause(7.5, 0) == tasks.pause(7.5, 100) == 7.5
    assert tasks.pause(1e-9, 0) == tasks.PAUSE_LEAST and tasks.pause(1e9, 0) == tasks.PAUSE_MOST
    silent = [tasks.pause(None, asked) for asked in range(20)]
    assert silent[0] == tasks.PAUSE and silent[-1] == tasks.PAUSE_SLOW and silent == sorted(silent)
    assert tasks.pause(None, 10**9) == tasks.PAUSE_SLOW


def test_who_offers_tasks() -> None:
    """Each era in its own place, and only as an object."""
    assert tasks.offers({"extensions": {EXTENSION: {}}}) and tasks.offers({"extensions": {EXTENSION: {"x": 1}}})
    wrong: list[dict[str, Any]] = [{}, {"extensions": None}, {"extensions": {EXTENSION: True}}, {"tasks": {}}]
    assert not any(map(tasks.offers, wrong))
    assert tasks.offers_old({"tasks": {"requests": {"tools": {"call": {}}}}})
    wrong = [{}, {"tasks": {}}, {"tasks": {"requests": {"tools": True}}}, {"extensions": {EXTENSION: {}}}]
    assert not any(map(tasks.offers_old, wrong))
    assert tasks.is_required(Raw(b'{"taskSupport":"required"}'))
    assert not tasks.is_required(Raw(b'{"taskSupport":"optional"}')) and not tasks.is_required(Raw(b"{}"))


@pytest.mark.parametrize(
    ("extensions", "able"),
    [({EXTENSION: {}}, True), ({EXTENSION: None}, False), ({"x": {}}, False), ([], False), (None, False)],
)
def test_which_agents_have_tasks(extensions: Any, able: bool) -> None:
    """B77: those that say so with the request."""
    keys = "io.modelcontextprotocol/"
    capabilities = {"extensions": extensions}
    meta = {f"{keys}protocolVersion": "2026-07-28", f"{keys}clientCapabilities": capabilities}
    found = read_request_meta(encoded(meta))
    assert found.tasks is able and found.capabilities == b""


def test_a_result_that_says_what_it_is() -> None:
    """Only the types count."""
    assert tasks.is_made(b'{"resultType":"task"}') and not tasks.is_made(b'{"resultType":"complete"}')
    assert tasks.is_final(b'{"content":[]}') and tasks.is_final(b'{"resultType":"complete"}')
    for bad in (b"[]", b"", b'{"resultType":5}', b'{"resultType":"task"}', b'{"resultType":"input_required"}'):
        assert not tasks.is_final(bad)


def test_a_result_without_its_task() -> None:
    """B78: what a legacy server says of the task goes, and nothing else."""
    assert tasks.plain(b'{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}') == (
        b'{"content":[]}'
    )
    kept = b'{"content":[],"_meta":{"a":1}}'
    assert tasks.plain(kept) == kept and tasks.plain(b"nonsense") == b"nonsense"
    both = b'{"_meta":{"io.modelcontextprotocol/related-task":{},"a":1}}'
    assert json.loads(tasks.plain(both)) == {"_meta": {"a": 1}}


def test_what_is_made_of_one() -> None:
    """B76: progress and rounds."""
    assert json.loads(tasks.told(3, 'a"b')) == {"progress": 3, "message": 'a"b'}
    assert json.loads(tasks.asking({"k": Raw(b'{"method":"m"}')})) == {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "m"}},
    }


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=80), st.binary(min_size=12, max_size=12))
def test_a_seal_opens_for_its_agent_alone(principal: str, server: str, task: str, nonce: bytes) -> None:
    """B77: whatever names are."""
    handle = tasks.seal(KEY, principal, server, task, nonce)
    assert tasks.unseal(KEY, principal, handle) == (server, task)
    assert handle.isascii() and "=" not in handle and " " not in handle, "it stands in a header"
    for key, who in ((KEY, principal + "x"), (b"other", principal)):
        with pytest.raises(tasks.UnknownTask):
            tasks.unseal(key, who, handle)


def test_a_changed_seal() -> None:
    """B77: no character of it may be another one, or one more."""
    handle = tasks.seal(KEY, "p", "s", "t", NONCE)
    for at in range(len(handle)):
        with pytest.raises(tasks.UnknownTask):
            tasks.unseal(KEY, "p", handle[:at] + ("A" if handle[at] != "A" else "B") + handle[at + 1 :])
    for bad in ("", "=", handle + "=", handle + "\n", handle[:-1], "ä" + handle, "A" * (tasks.MAX_HANDLE + 4)):
        with pytest.raises(tasks.UnknownTask):
            tasks.unseal(KEY, "p", bad)


def test_nothing_in_it_is_said_for_mcphub() -> None:
    """H9: neither in its own `_meta`, nor in that of the result it led to, nor in the data of its error; all of it is
    counted, and what only mentions it stays."""
    claim = {"dev.mcphub/error": {"retryable": True}, "own": 1}
    task = {
        "taskId": "up", "status": "completed", "statusMessage": "dev.mcphub/error", "_meta": claim,
        "result": {"content": [], "_meta": claim}, "error": {"code": 1, "message": "m", "data": claim},
    }  # fmt: skip
    counters: Counter[str] = Counter()
    found = json.loads(tasks.shown(json.dumps(task).encode(), "mine", "complete", counters))
    assert found["_meta"]["own"] == 1 and found["statusMessage"] == "dev.mcphub/error"
    assert found["result"] == {"content": [], "_meta": {"own": 1}}
    assert found["error"] == {"code": 1, "message": "m", "data": {"own": 1}}
    assert "dev.mcphub/error" not in found["_meta"] and counters == {"claimed_keys": 3}
