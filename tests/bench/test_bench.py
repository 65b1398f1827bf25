"""Checks that the pieces of the benchmark work, on tiny runs; nothing here asserts a time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import (
    accounting,
    command,
    configuration,
    fairness,
    features,
    goals,
    http_load,
    load,
    neighbours,
    outage,
    peers,
    relays,
    report,
    scale,
    startup,
    targets,
)
from .http_wire import HttpClient, messages, unchunked
from .running import Running
from .wire import BenchError, Client, closed_loop, start_call, wait_reply

TINY = (
    load.Phase("100B c1", 1, "echo", load.SMALL, 100),
    load.Phase("100B c8", 8, "echo", load.SMALL, 100),
    load.Phase("300KB c2", 2, "blob", {"size": 300_000}, 300_000, most_calls=6),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a Unix socket's address holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="mcphub-bench-") as name:
        yield Path(name)


def test_load_runs_direct_and_through_the_floor(folder: Path) -> None:
    """Every phase has its samples on both targets, CPU is the gateway's alone, and no process is left."""
    with Running(targets.direct(folder)) as direct, Running(targets.bridged_relay(folder)) as floor:
        assert direct.tree().gateway == ()
        assert len(floor.tree().gateway) == 2
        assert len(floor.tree().servers) == 1
        results = load.run([direct, floor], TINY, rounds=2, seconds=0.02)
    for result in results.values():
        assert result.errors == {}
        assert {name: len(samples) for name, samples in result.samples.items()} == {one.name: 2 for one in TINY}
    assert load.column(results, "direct", "100B c1", "gateway_cpu_us") == [0.0, 0.0]
    assert all(value > 0 for value in load.column(results, "bridge:poll:buf-asyncio", "100B c1", "gateway_cpu_us"))
    figures = load.figures(results, "bridge:poll:buf-asyncio", "direct", "bridge:poll:buf-asyncio", "nobody")
    assert figures["5 c1"].values == (1.0, 1.0)
    assert figures["6 c1"].because == "nobody did not run"
    print("\n".join(load.tables(results, "direct")))
    for one in (direct.target, floor.target):
        assert accounting.marked("XDG_RUNTIME_DIR", one.environment["XDG_RUNTIME_DIR"]) == ()


def test_mcphub_is_measured_like_any_target(folder: Path) -> None:
    """Daemon, launcher and bridge are the gateway, its two echo servers are not; all of them end with the run."""
    target = targets.mcphub(folder / "hub", Path(sys.executable).parent / "mcphub", servers=2, tools=5)
    with Running(target, want=10) as hub, Running(targets.direct(folder)) as direct:
        assert {hub.tool("echo", "s0"), hub.tool("rows", "s1")} == {"mcp__s0__echo", "mcp__s1__rows"}
        tree = hub.tree()
        assert len(tree.servers) == 2
        daemon, _ = hub.daemon_tree()
        assert daemon in tree.gateway
        assert set(hub.bridge_tree()) <= set(tree.gateway)
        results = load.run([direct, hub], TINY, rounds=1, seconds=0.02)
        seen = scale.observe(hub, idle_seconds=0.02)
        fair = fairness.run(hub, rounds=1, seconds=0.02)
    assert fair.errors == {} and all(figure.values for figure in fairness.figures(fair).values())
    assert set(fairness.SITUATIONS) == set(fair.greedy) and fairness.SAME in fairness.tables(fair)[0]
    print("\n".join(load.tables(results, "direct")))
    assert results["mcphub"].errors == {}
    assert min(seen.daemon_mib, seen.bridge_mib, seen.list_ms) > 0
    assert accounting.marked("XDG_RUNTIME_DIR", target.environment["XDG_RUNTIME_DIR"]) == ()


def test_a_flood_that_is_refused_is_no_flood_of_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the greedy agent's calls are refused and should not be, there is no figure, but what was."""
    target = targets.mcphub(folder / "hub", Path(sys.executable).parent / "mcphub", servers=2, tools=5)
    with Running(target, want=10) as hub:
        right = hub.tool
        monkeypatch.setattr(hub, "tool", lambda base, server=None: right(base, server) + "-no" * (server == "s1"))
        fair = fairness.run(hub, rounds=1, seconds=0.02)
    assert list(fair.errors) == [fairness.OTHER] and "were refused" in fair.errors[fairness.OTHER]
    found = fairness.figures(fair)
    assert found["26"].values and not found["26 other"].values and found["26 other"].because


def test_echo_server_speaks_both_eras(folder: Path) -> None:
    """`server/discover` and per-request `_meta` are answered in the modern shape, `initialize` in the legacy one."""
    with Running(targets.direct(folder, tools=30), want=30) as direct:
        client = direct.client
        assert "2026-07-28" in client.request("server/discover")["supportedVersions"]
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        modern = client.request("tools/call", {"name": "echo", "arguments": {"text": "ä"}, "_meta": meta})
        assert modern == {"content": [{"type": "text", "text": "ä"}], "resultType": "complete"}
        legacy = client.request("tools/call", {"name": "echo", "arguments": {"text": "ä"}})
        assert legacy == {"content": [{"type": "text", "text": "ä"}]}
        rows = client.request("tools/call", {"name": "rows", "arguments": {"size": 20_000}})["structuredContent"]
        assert 20_000 <= len(json.dumps(rows, separators=(",", ":"))) < 21_000
        with pytest.raises(BenchError, match="Method not found"):
            client.request("resources/list")


def test_slow_call_does_not_hold_the_echo(folder: Path) -> None:
    """A later echo overtakes a sleeping call, and both are answered."""
    with Running(targets.bridged_relay(folder)) as floor:
        slow = start_call(floor.client, "sleep", {"ms": 200})
        latencies, _ = closed_loop(
            floor.client, "echo", load.SMALL, concurrency=1, seconds=0.02, most_calls=5, least_bytes=100
        )
        assert latencies
        assert b'"ok"' in wait_reply(floor.client, slow, 10)


class Answered(Client):
    """A wire that answers each message at once, and keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []
        self.done = 0

    def start(self, body: bytes) -> None:
        self.sent.append(json.loads(body))

    def flush(self) -> None:
        pass

    def poll(self, timeout: float = 5.0) -> list[tuple[int, bytes]]:
        new, self.done = self.sent[self.done :], len(self.sent)
        result = {"content": [{"type": "text", "text": load.SMALL["text"]}]}
        return [(one["id"], json.dumps({"id": one["id"], "result": result}).encode()) for one in new]


def test_each_call_of_a_loop_can_have_a_number_of_its_own() -> None:
    """Where `_meta` has a place for it, 16 hexadecimal digits stand there, in no two calls the same."""
    client = Answered()
    closed_loop(
        client, "echo", load.SMALL, concurrency=3, seconds=5, most_calls=9, least_bytes=100, meta=features.SPANS
    )
    spans = [one["params"]["_meta"]["traceparent"].split("-")[2] for one in client.sent]
    assert len(set(spans)) == len(spans) == 9
    assert all(len(span) == 16 and int(span, 16) for span in spans)


@pytest.mark.parametrize("kind", ["progress", "junk"])
def test_flood_comes_before_its_answer(folder: Path, kind: str) -> None:
    """The flooding tool writes lines nobody asked for and then answers; a client that drops them stays in step."""
    with Running(targets.direct(folder)) as direct:
        flood = start_call(direct.client, "flood", {"seconds": 0.02, "kind": kind})
        assert b'"ok"' in wait_reply(direct.client, flood, 10)


def test_wrong_answer_fails_the_phase(folder: Path) -> None:
    """A reply that is too short is an error of the target, and the target is attached again for the next phase."""
    wrong = load.Phase("wrong", 1, "echo", {"text": "x"}, 10_000)
    with Running(targets.bridged_relay(folder)) as floor:
        results = load.run([floor], (wrong, TINY[0]), rounds=1, seconds=0.02)
    result = results["bridge:poll:buf-asyncio"]
    assert "echo answered" in result.errors["wrong"]
    assert len(result.samples["100B c1"]) == 1


def test_target_that_ends_early_says_why(folder: Path) -> None:
    """A daemon that exits before it listens is a BenchError with its last words, at once."""
    argv = (targets.BASE_PYTHON, "-c", "raise SystemExit('no such key: speed')")
    environment = targets.base_environment(folder / "early")
    target = targets.Target("early", daemon=argv, ready=folder / "never.sock", environment=environment)
    with pytest.raises(BenchError, match=r"early: the daemon exited with 1 .* it said: no such key: speed"):
        Running(target)


class HoldingTransport(asyncio.WriteTransport):
    """What a transport of Python 3.12 and later is for a peer that does not read: it keeps the views it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[bytes | bytearray | memoryview] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.held.append(data)

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.held))


def test_relay_never_writes_over_a_view_it_lent() -> None:
    """Large results that the transport still holds keep their bytes while the next ones are received."""
    codec, client = relays.Codec(), relays.Outlet()
    transport = HoldingTransport()
    client.transport = transport
    side = relays.Side(codec.down, client, relays.Outlet())
    expected = b""
    stream = b""
    for number in range(1, 9):
        codec.waiting[number] = f"client-{number}"
        body = b'{"text":"%s"}' % (str(number).encode() * 60_000)
        stream += b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (number, body)
        expected += b'{"jsonrpc":"2.0","id":"client-%d","result":%s}\n' % (number, body)
    while stream:
        buffer = side.get_buffer(-1)
        size = min(len(buffer), len(stream), 50_000)
        buffer[:size] = stream[:size]
        buffer.release()
        stream = stream[size:]
        side.buffer_updated(size)
    assert any(isinstance(frame, memoryview) for frame in transport.held)
    assert b"".join(transport.held) == expected


def test_spawn_only_starts_a_few_at_a_time(folder: Path) -> None:
    """The floor of connect-all starts, greets and lists every server and leaves none."""
    assert scale.spawn_only(folder, servers=4, tools=5, at_once=2) > 0
    runtime = targets.base_environment(folder)["XDG_RUNTIME_DIR"]
    assert accounting.marked("XDG_RUNTIME_DIR", runtime) == ()


def test_startup_times_the_floor_without_a_hub(folder: Path) -> None:
    """The bridge in front of the relay is timed; what needs mcphub is said to be missing."""
    with Running(targets.relay(folder)) as relay:
        found = startup.run(None, relay, Path(targets.BASE_PYTHON).parent / "mcphub", rounds=1)
    assert len(found.times[startup.BRIDGE]) == 1
    assert startup.figures(found)["18"].because == "mcphub did not run"
    assert startup.BRIDGE in startup.tables(found)[0]


def test_neighbours_run_without_a_hub(folder: Path) -> None:
    """The direct server is measured alone, behind a slow call and beside the rows of another; no goal is made up."""
    found = neighbours.run(folder, None, rounds=1, seconds=0.02)
    assert found.errors == {}
    assert set(found.samples["direct"]) == {neighbours.ALONE, neighbours.SLOW, neighbours.ROWS}
    assert all(not figure.values for figure in neighbours.figures(found, "mcphub").values())


@pytest.mark.parametrize("sse", [False, True])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_http_wire_reads_documents_and_events(folder: Path, sse: bool, era: str) -> None:
    """Both forms of an answer are one reply to the load generator, in both eras, and connections are used again."""
    with Running(targets.echo_http(folder, sse=sse)) as echo:
        client = echo.attach(replace(echo.target, era=era))
        assert isinstance(client, HttpClient)
        latencies, _ = closed_loop(
            client, "echo", load.SMALL, concurrency=3, seconds=5, most_calls=30, least_bytes=100
        )
        assert len(latencies) == 30
        assert len(client.free) <= 3
        assert bool(client.session) is (era == "legacy")
        with pytest.raises(BenchError, match="Method not found"):
            client.request("resources/list")


def test_chunks_and_events_are_taken_apart() -> None:
    """Whole chunks only, with where they end; of events the data that is JSON."""
    data = bytearray(b"3\r\nabc\r\n2;x=y\r\nde\r\n5\r\nin")
    assert unchunked(data, 0) == ([b"abc", b"de"], 19, False)
    assert unchunked(data[:8] + b"0\r\n\r\n", 0) == ([b"abc"], 13, True)
    events = b'event: endpoint\ndata: /x\n\nevent: message\ndata: {"id":1}\n\n: quiet\n\ndata:{"id":2}\n\n'
    assert messages(events) == [b'{"id":1}', b'{"id":2}']


def test_http_endpoints_are_measured_in_both_eras(folder: Path) -> None:
    """The relay and mcphub answer over HTTP; the goals say which peers were not there; no process is left."""
    program = Path(sys.executable).parent / "mcphub"
    wanted = [
        targets.asgi_relay(folder, "legacy"),
        targets.mcphub_http(folder / "http", program, "legacy"),
        targets.mcphub_http(folder / "modern", program, "modern"),
    ]
    with ExitStack() as stack:
        running = [stack.enter_context(Running(target)) for target in wanted]
        assert [len(one.tree().servers) for one in running] == [1, 1, 1]
        results = http_load.run(running, rounds=1, seconds=0.04)
    assert all(result.errors == {} and len(result.samples) == 3 for result in results.values())
    missing = dict.fromkeys(http_load.PEERS, "it was not asked for")
    figures = http_load.endpoint_figures(results, missing)
    assert figures["19 c1"].because == "it was not asked for"
    assert figures["19 best"].because == "no peer ran"
    assert "supergateway: not measured, it was not asked for" in http_load.endpoint_tables(results, missing)
    for target in wanted:
        assert accounting.marked("XDG_RUNTIME_DIR", target.environment["XDG_RUNTIME_DIR"]) == ()


def test_the_nearest_peer_decides() -> None:
    """Being ahead of every peer is being ahead of the best one, in the phase where it is best."""
    names = [http_load.SUBJECT, "supergateway", "mcp-hub"]
    rates = {"100B c1": (3.0, 2.0, 1.0), "100B c8": (8.0, 2.0, 1.0), "100B c64": (9.0, 2.0, 6.0)}
    results = {
        name: load.TargetLoad(
            0.1, {phase: [load.Sample(1, each[index], 1, 1, 1, 1)] for phase, each in rates.items()}
        )
        for index, name in enumerate(names)
    }
    assert http_load.endpoint_figures(results, {})["19 best"].values == (1.5,)


def test_http_clients_are_measured_alone_and_in_the_gateway(folder: Path) -> None:
    """Each client's CPU a request, and that of a gateway whose server is the same endpoint."""
    program = Path(sys.executable).parent / "mcphub"
    found = http_load.upstream(folder, program, rounds=1, seconds=0.04)
    assert found.errors == {}
    for count in http_load.CONCURRENCY:
        assert set(found.clients[count]) == set(http_load.CLIENTS)
        assert all(values[0] > 0 for values in found.clients[count].values())
        assert found.gateway[count][0].gateway_cpu_us > 0
    assert all(figure.values for figure in http_load.upstream_figures(found).values())
    assert len(http_load.upstream_tables(found)) == 1


def test_every_feature_is_measured_with_and_without(folder: Path) -> None:
    """One daemon has a server and an agent of each kind; nothing of it fails, and the table has a line for each."""
    assert len({feature.name for feature in features.FEATURES}) == len(features.FEATURES)
    found = features.run(folder, Path(sys.executable).parent / "mcphub", rounds=1, seconds=0.02)
    assert found.errors == {}
    assert set(found.samples) == {feature.name for feature in features.FEATURES}
    table = features.tables(found)[0]
    assert all(f"| {feature.name} | " in table for feature in features.FEATURES)


def test_peers_that_may_not_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them and without leave to install, it is said which is missing, and nothing is fetched."""
    monkeypatch.setenv("MCPHUB_BENCH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(BenchError, match="mcp-proxy==0.13.0 is not installed"):
        peers.mcp_proxy(install=False)
    with pytest.raises(BenchError, match=r"mcp-hub@4\.2\.1 is not installed|no node"):
        peers.node_gateways(install=False)
    with pytest.raises(BenchError, match="cannot install nothing: there is no made"):
        peers.installed("nothing", [tmp_path / "made"], [("true",)], install=True)
    with pytest.raises(BenchError, match="cannot install nothing: false ended with 1"):
        peers.installed("nothing", [tmp_path / "made"], [("false",)], install=True)
    assert not (tmp_path / "cache").exists()


def test_goals_without_peers_are_optional() -> None:
    """`--check` asks for no peer that cannot be had, and for everything else."""
    assert set(command.OPTIONAL) == {goal.key for goal in goals.GOALS if goal.key.startswith(("6 ", "19 "))}
    assert "http" in command.parse([]).only.split(",")


@pytest.mark.parametrize(
    ("key", "values", "verdict"),
    [
        ("1", (0.5,), "extreme"),
        ("1", (0.40, 0.40, 0.1), "met"),
        ("1", (0.39,), "missed"),
        ("4", (1.1,), "extreme"),
        ("4", (1.4, 9.0, 1.2), "met"),
        ("4", (1.41,), "missed"),
        ("4", (), "not measured"),
    ],
)
def test_verdict_is_by_the_median(key: str, values: tuple[float, ...], verdict: str) -> None:
    """A bound is part of the right side, and one disturbed round decides nothing."""
    rows = goals.judge({key: goals.Figure(values)})
    assert next(row for row in rows if row.goal.key == key).verdict == verdict
    assert {row.verdict for row in rows if row.goal.key != key} == {"not measured"}


def test_ratios_pair_the_rounds() -> None:
    """Each round is divided by its own neighbour; a round without one is left out."""
    assert goals.ratios([2.0, 6.0, 1.0], [1.0, 3.0]).values == (2.0, 2.0)
    assert goals.ratios([2.0], [0.0]).because == "no round of both"


def test_report_replaces_what_lies_between_its_marks(tmp_path: Path) -> None:
    """The rest of a document stays; a run that is written twice is there once."""
    rows = goals.judge({"1": goals.Figure((0.41, 0.45, 0.43))})
    text = tmp_path / "page.md"
    text.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    run = report.Report("two cores.", rows, [("Load", ["| a |"])])
    for _ in range(2):
        report.write_markdown(run, text)
    written = text.read_text()
    assert written.startswith(f"before\n{report.BEGIN}\n\n## Measured\n")
    assert written.endswith(f"{report.END}\nafter\n")
    assert "old" not in written
    assert written.count("### Load") == 1
    assert "0.41 to 0.45" in written
    assert run.json()["goals"][0] | {"what": ""} == {
        "goal": "1",
        "what": "",
        "unit": "",
        "gate": 0.40,
        "extreme": 0.50,
        "values": [0.41, 0.45, 0.43],
        "median": 0.43,
        "because": "",
        "verdict": "met",
    }


def test_configuration_runs(folder: Path) -> None:
    """Every server gets a verdict, one edit restarts one instance, and both kinds of agent were there."""
    program = Path(sys.executable).with_name("mcphub")
    found = configuration.run(folder, program, servers=12, rounds=1)
    assert found.error == ""
    assert found.restarted == [1, 1]
    assert (len(found.change_ms), len(found.plain_us), len(found.workspace_us)) == (1, 2, 2)
    assert {key: bool(figure.values) for key, figure in configuration.figures(found).items()} == dict.fromkeys(
        ("22", "23", "23 s", "24"), True
    )
    [table] = configuration.tables(found, 12)
    assert "`resolve` of them, 9 layers" in table


def test_outage_runs(folder: Path) -> None:
    """All servers go and all come back; never more attempts at once than the limiter lets through."""
    found = outage.run(folder, Path(sys.executable).with_name("mcphub"), servers=30, away=1.0)
    assert found.error == ""
    assert {name: steps[-1] for name, steps in found.connected.items()} == {"start": 30, "away": 0, "back": 30}
    assert sum(found.begun["start"]) >= 30
    assert outage.figures(found)["25"].values[0] <= 20
    table, curve = outage.tables(found)
    assert "| away | 1.0 |" in table and "connected" in curve


def test_command_says_what_it_lacks() -> None:
    """Without mcphub in the environment the command ends with 2 and names the program; it measures nothing."""
    script = Path(__file__).with_name("run.py")
    argv = (targets.BASE_PYTHON, "-I", str(script), "--mcphub", "/nonexistent/mcphub")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no program /nonexistent/mcphub" in done.stderr
