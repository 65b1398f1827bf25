"""What servers write on stdout in the field, and what the hub makes of it; nobody else may notice."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import psutil
import pytest

from tests.fakes.agent import Agent, text
from tests.fakes.hub import Fake, Hub, row, running

pytestmark = pytest.mark.anyio

MIB = 1 << 20
CONTENT = '{"content":[{"type":"text","text":"%s"}]}'
INITIALIZED = (
    '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}'
)
LISTED = '{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}'


def answer(result: str, id: str = "$ID") -> str:
    return f'{{"jsonrpc":"2.0","id":{id},"result":{result}}}'


def write64(data: bytes) -> dict[str, str]:
    return {"write64": base64.b64encode(data).decode()}


BANNERS = [
    {"write": "╭─ FastMCP ─╮\n"},
    {"write": "\n   \n"},
    {"write": '[INFO] {"not":"rpc"}\n'},
    {"write": '{"level":30,"msg":"pino log"}\n'},
]

SERVERS = {
    "plain": Fake(),
    "modern": Fake({"era": "modern"}),
    "banner": Fake({"before": BANNERS, "on": {"initialize": [*BANNERS, {"default": 1}]}}),
    "windows": Fake(
        {
            "on": {
                "server/discover": [
                    write64(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}\r\n')
                ],
                "initialize": [{"write": answer(INITIALIZED) + "\r\n"}],
                "tools/list": [{"write": f"  {answer(LISTED)} \r\n"}],
            }
        }
    ),
    "batching": Fake({"protocol": "2025-03-26"}),
}


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Hub]:
    async with running(SERVERS) as hub:
        await hub.until_state(*SERVERS)
        yield hub
        status = await hub.status()
        # Whatever the tests let servers write, it was never a reason to lose a connection.
        assert [s["name"] for s in status["servers"] if s["state"] != "connected"] == []
        assert {name: len(hub.place.starts(name)) for name in SERVERS} == dict.fromkeys(SERVERS, 1)


async def do(agent: Agent, server: str, *actions: Mapping[str, Any], timeout: float = 20) -> dict[str, Any]:
    return await agent.call(f"mcp__{server}__do", {"actions": list(actions)}, timeout=timeout)


async def test_banners_before_the_handshake(hub: Hub, agent: Agent) -> None:
    """C045: stray lines before and during the handshake are counted and shown, and the server is used all the same."""
    assert text(await agent.call("mcp__banner__echo", {"text": "in spite of it"})) == "in spite of it"
    server = await hub.server("banner")
    assert sum(server["counters"].values()) > 0


async def test_stray_lines_between_messages(agent: Agent) -> None:
    """C045: stray lines in the middle of a call disturb neither this call nor the next."""
    assert text(await do(agent, "plain", *BANNERS, {"text": "first"})) == "first"
    assert text(await agent.call("mcp__plain__echo", {"text": "next"})) == "next"


async def test_only_rubbish() -> None:
    """C045: a server that writes nothing but rubbish fails before its time is over, and the reason says so."""
    rubbish = Fake({"before": [{"flood": "no protocol here\n"}]}, {"startupTimeout": 20000})
    async with running({"rubbish": rubbish, "plain": Fake()}, settings="[connect]\nattempts = 1\n") as hub:
        assert "stdout" in (await hub.first_error("rubbish", timeout=10))["message"]
        await hub.until_state("plain")


async def test_byte_order_mark_and_crlf(hub: Hub, agent: Agent) -> None:
    """C046: one mark at the start, CRLF and blanks around a message are read; our own lines have neither."""
    assert text(await do(agent, "windows", {"write": answer(CONTENT % "ok") + "\r\n"})) == "ok"
    assert b"\r" not in hub.place.log("windows").read_bytes()
    assert b"\xef\xbb\xbf" not in hub.place.log("windows").read_bytes()


async def test_a_character_cut_by_every_read(agent: Agent) -> None:
    """C047: text is the same when each byte, also those between CR and LF, comes in a read of its own."""
    line = answer(CONTENT % "漢🙂—") + "\r\n"
    assert text(await do(agent, "plain", {"write": line, "chunk": 1, "pause": 0.003})) == "漢🙂—"


@pytest.mark.parametrize("chunk", [0, 1024])
async def test_a_line_of_20_mb(agent: Agent, chunk: int) -> None:
    """C049: a large answer arrives whole in any chunking, and the call behind it is answered too."""
    size = 20_000_000
    actions = [{"big": size, "chunk": chunk}]
    large = await agent.start("tools/call", {"name": "mcp__plain__do", "arguments": {"actions": actions}})
    small = await agent.start("tools/call", {"name": "mcp__plain__echo", "arguments": {"text": "behind"}})
    assert len(text(await agent.response(large))) == size
    assert text(await agent.response(small)) == "behind"


async def test_an_answer_above_the_limit(hub: Hub, agent: Agent) -> None:
    """C049: its own call ends, by name; the connection goes on, and so does every other call on it."""
    starts = len(hub.place.starts("plain"))
    actions = [{"big": 70_000_000, "chunk": 1 << 20}]
    large = await agent.start("tools/call", {"name": "mcp__plain__do", "arguments": {"actions": actions}})
    small = await agent.start("tools/call", {"name": "mcp__plain__echo", "arguments": {"text": "behind"}})
    error = (await agent.response(large))["error"]
    assert "the server plain answered" in error["message"] and "longer than 64 MiB" in error["message"]
    assert text(await agent.response(small)) == "behind"
    assert len(hub.place.starts("plain")) == starts
    assert row(await hub.status(), "plain")["counters"]["too_long"] == 1


async def test_an_endless_line() -> None:
    """C050: the message before it is delivered, memory stays below the limit, and only that connection ends."""
    async with running({"endless": Fake(), "plain": Fake()}) as hub, await hub.agent() as agent:
        await hub.until_state("endless", "plain")
        await agent.initialize()
        assert hub.process is not None
        daemon = psutil.Process(hub.process.pid)
        before = daemon.memory_info().rss
        peak = before

        async def watch_memory() -> None:
            nonlocal peak
            while True:
                peak = max(peak, daemon.memory_info().rss)
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch_memory)
            first = {"write": answer(CONTENT % "first") + "\n" + "A" * 1000}
            assert text(await do(agent, "endless", first, {"endless": 0})) == "first"
            error = await hub.first_error("endless")
            tasks.cancel_scope.cancel()
        assert "MiB" in error["message"]
        assert peak - before < (64 + 100) * MIB
        assert text(await agent.call("mcp__plain__echo", {"text": "calm"})) == "calm"
        assert row(await hub.status(), "plain")["state"] == "connected"
        await hub.until_state("endless")


async def test_lines_that_are_no_utf8(agent: Agent) -> None:
    """C052: bytes that are no UTF-8 cost one line; the next message is read."""
    assert text(await do(agent, "plain", write64(b"\xff\xfe\n"), {"text": "read on"})) == "read on"


async def test_latin_1_inside_an_answer(agent: Agent) -> None:
    """C052: an answer with a byte that is no UTF-8 is refused, never repaired into other text, and never waited for."""
    line = answer(CONTENT % "caf\xe9") + "\n"
    response = await do(agent, "plain", write64(line.encode("latin-1")), timeout=5)
    assert "error" in response, response
    assert text(await agent.call("mcp__plain__echo", {"text": "next"})) == "next"


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
async def test_constants_that_are_no_json(agent: Agent, constant: str) -> None:
    """C054: NaN and Infinity are the server's fault and reach nobody."""
    response = await do(agent, "plain", {"write": answer(f'{{"content":[],"v":{constant}}}') + "\n"}, timeout=5)
    assert "error" in response, response


async def test_a_lone_surrogate(agent: Agent) -> None:
    """C054: half an emoji in a text becomes U+FFFD; all else of the answer is untouched."""
    response = await do(agent, "plain", {"write": answer(CONTENT % r"a\ud83db") + "\n"})
    assert text(response) == "a\ufffdb"


@pytest.mark.parametrize("ids", ['999999,"id":$ID', '$ID,"id":999999', '$ID,"id":$ID'])
async def test_two_ids_in_one_envelope(agent: Agent, ids: str) -> None:
    """C054: an answer with two ids is nobody's answer, and those it names need not wait for a better one."""
    response = await do(agent, "plain", {"write": answer(CONTENT % "wrong", ids) + "\n"})
    assert "cannot be read: duplicate members in the envelope" in response["error"]["message"]


BOTH = {"write": answer('{},"error":{"code":1,"message":"x"}') + "\n"}
SAID = "cannot be read: both a result and an error"


async def test_a_result_and_an_error_in_one_answer(agent: Agent) -> None:
    """What says both says neither: a call, the handshake and a list fail by that name."""
    response = await do(agent, "plain", BOTH)
    assert SAID in response["error"]["message"]
    assert text(await do(agent, "plain", {"text": "next"})) == "next"
    servers = {name: Fake({"on": {method: [BOTH]}}) for name, method in (("a", "initialize"), ("b", "tools/list"))}
    async with running(servers) as hub:
        await hub.until(lambda report: all(SAID in json.dumps(row(report, name)) for name in servers))


async def test_content_length_framing() -> None:
    """C056: the framing of language servers is recognised, not waited out."""
    body = answer(INITIALIZED, "1")
    framed = {"write": f"Content-Length: {len(body)}\r\n\r\n{body}"}
    on = {"server/discover": [framed], "initialize": [framed]}
    async with running({"lsp": Fake({"on": on}, {"startupTimeout": 20000})}) as hub:
        report = await hub.until_state("lsp", state="failed", timeout=10)
        assert "Content-Length" in row(report, "lsp")["last_error"]["message"]


async def test_batches_where_they_do_not_exist(agent: Agent) -> None:
    """C057: arrays and scalars are no messages in this version: counted and passed over; a call that an element claims
    to answer ends with that, since nothing better may come."""
    odd = ["[]", "42", "null", '"hi"', "[[]]", "[1,2]"]
    response = await do(agent, "plain", {"write": "".join(f"{line}\n" for line in odd)}, {"text": "alone"})
    assert text(response) == "alone"
    response = await do(agent, "plain", {"write": f"[{answer(CONTENT % 'batched')}]\n"})
    assert "cannot be read: a JSON array" in response["error"]["message"]
    assert text(await do(agent, "plain", {"text": "next"})) == "next"


async def test_batches_where_they_exist(agent: Agent) -> None:
    """C057: with 2025-03-26 the elements of a batch are taken one by one; a bad one does not lose the good ones."""
    noise = '{"jsonrpc":"2.0","method":"notifications/x"}'
    line = f"[{noise},17,{answer(CONTENT % 'batched')},{noise}]\n"
    assert text(await do(agent, "batching", {"write": line})) == "batched"


@pytest.mark.parametrize("id", ['"$ID"', "$ID.0"])
async def test_our_id_in_another_type(agent: Agent, id: str) -> None:
    """C058: our integer id as decimal text or as a float is still ours."""
    assert text(await do(agent, "plain", {"write": answer(CONTENT % "mine", id) + "\n"})) == "mine"


@pytest.mark.parametrize("id", ['"0$ID"', "null", "987654321", '"x"', "$ID.5", "true", "[$ID]"])
async def test_ids_that_are_nobodys(agent: Agent, id: str) -> None:
    """C058: an answer with an id that we never sent is dropped, even when only one request waits."""
    wrong = {"write": answer(CONTENT % "wrong", id) + "\n"}
    assert text(await do(agent, "plain", wrong, {"text": "right"})) == "right"


async def test_an_answer_without_id(agent: Agent) -> None:
    """C058: an answer that names no request answers none."""
    wrong = {"write": '{"jsonrpc":"2.0","result":%s}\n' % (CONTENT % "wrong")}
    assert text(await do(agent, "plain", wrong, {"text": "right"})) == "right"


@pytest.mark.parametrize("method", ["sampling/createMessage", "foo/bar"])
async def test_questions_that_nobody_can_answer(agent: Agent, method: str) -> None:
    """C061: a request for what was not declared is refused at once with -32601; the server does not block."""
    reply = json.loads(text(await do(agent, "plain", {"ask": method, "params": {}}, {"reply": 1})))
    assert reply["error"]["code"] == -32601


async def test_questions_that_the_hub_answers(agent: Agent) -> None:
    """C061: ping and roots/list are answered by the hub; the agent sees neither."""
    assert json.loads(text(await do(agent, "plain", {"ask": "ping"}, {"reply": 1})))["result"] == {}
    roots = json.loads(text(await do(agent, "plain", {"ask": "roots/list"}, {"reply": 1})))["result"]
    assert isinstance(roots["roots"], list)
    assert agent.asked == []


async def test_an_elicitation_is_never_left_hanging(agent: Agent) -> None:
    """C061: an agent that did not say it can ask its person: the server gets an answer, not silence."""
    question = {"ask": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    reply = json.loads(text(await do(agent, "plain", question, {"reply": 1})))
    assert "error" in reply or reply["result"]["action"] in ("cancel", "decline")


async def test_what_is_declared_to_an_old_server(hub: Hub) -> None:
    """C061: nothing that the hub cannot do, and never the elicitation modes that crash Java servers."""
    [sent] = [m for m in hub.received("plain") if isinstance(m, dict) and m.get("method") == "initialize"]
    capabilities = sent["params"]["capabilities"]
    assert "sampling" not in capabilities
    assert capabilities.get("elicitation", {}) == {}


async def test_a_request_from_a_modern_server(hub: Hub, agent: Agent) -> None:
    """C061: a request on a modern server's stdout breaks the protocol; a client never writes a response there."""
    line = '{"jsonrpc":"2.0","id":"s1","method":"roots/list"}\n'
    assert text(await do(agent, "modern", {"write": line}, {"text": "went on"})) == "went on"
    assert all(isinstance(m, str) or "method" in m for m in hub.received("modern"))


async def test_a_flood_after_the_handshake_starves_nobody() -> None:
    """C187: a server that floods at full speed leaves its neighbours fast."""
    servers = {"flood": Fake({"after": [{"flood": "x\n"}]}), "plain": Fake()}
    async with running(servers) as hub, await hub.agent() as agent:
        await hub.until_state("plain")
        await agent.initialize()
        begun = anyio.current_time()
        for _ in range(200):
            assert "result" in await agent.call("mcp__plain__echo", {"text": "x"})
        assert (anyio.current_time() - begun) / 200 < 0.05


