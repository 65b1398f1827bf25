"""Owns one client scenario of the conformance suite: a hub in front of the suite's mock, and an agent that uses it.

It must not judge: the mock does. It must not tidy up after the hub either, so the agent is a raw one. The suite runs
`driver.py [--crossed] URL` with MCP_CONFORMANCE_SCENARIO, _PROTOCOL_VERSION and, for some, _CONTEXT in the environment.

What an administrator would set beforehand is set: the client's id, its secret or key, and the issuer that may see them.
The suite does not say that issuer, so it is read from the mock's own metadata (`issuer_of`), as an administrator would.
The organisation's login of auth/enterprise-managed-authorization is not part of the mock (its provider has no page to
log in at and publishes no keys): the id_token that the suite hands over is put into the hub's vault, where a login
before would have left it. Everything else is the hub's, as any person has it: `mcphub login`, with a browser that
follows redirects by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from mcphub.auth.idp import IDP
from mcphub.auth.records import IdpSession, encoded, idp_key
from mcphub.auth.unproven import claims_of
from mcphub.spec import Secret
from mcphub.store.vault_file import VaultFile
from tests.fakes.agent import LEGACY, MODERN, Agent, Message, modern_meta, strict_json
from tests.fakes.hub import MCPHUB, Hub, Place, running

#: What the mock is called in the hub's configuration, and so in the names that agents see.
SERVER = "sut"
PREFIX = f"mcp__{SERVER}__"
CAPABILITIES: Message = {"sampling": {}, "elicitation": {}, "roots": {}}
#: The suite gives a scenario 60 s; what is said before that is worth more than being killed.
LIMIT = 50.0
#: Rounds of one call before the agent gives up.
ROUNDS = 10
#: Sign-ins for one call. More than any hub should take: where it stops is its own affair, and the mock counts.
SIGN_INS = 6
#: A client id that is a URL; nothing fetches it.
METADATA_URL = "https://conformance-test.local/client-metadata.json"
#: How the hub gets secrets of a scenario: as variables of its own process.
CLIENT_SECRET, PRIVATE_KEY, WORKLOAD = "SUT_CLIENT_SECRET", "SUT_PRIVATE_KEY", "SUT_WORKLOAD_TOKEN"
#: Scenarios whose client shows a credential without a person: the entry says to whom (`oauth.issuer`).
PINNED = frozenset(
    ["auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/enterprise-managed-authorization"]
)
#: A browser without a person: it follows the authorization server's redirect to the hub's callback.
BROWSER = f"{shlex.quote(sys.executable)} -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=10)' %s"


def answer(method: str, params: Mapping[str, Any]) -> Message:
    """What this agent's person and model say to a server's question."""
    if method == "elicitation/create":
        shapes = params.get("requestedSchema", {}).get("properties", {})
        content = {name: shape["default"] for name, shape in shapes.items() if "default" in shape}
        if "confirmed" in shapes:
            content["confirmed"] = True
        return {"action": "accept", "content": content}
    if method == "sampling/createMessage":
        words = {"type": "text", "text": "an answer of the model"}
        return {"role": "assistant", "content": words, "model": "none", "stopReason": "endTurn"}
    if method == "roots/list":
        return {"roots": []}
    return {}


class AnsweringAgent(Agent):
    """Answers each question by what it asks."""

    async def _take(self, line: bytes) -> None:
        message = strict_json(line)
        if isinstance(message, dict) and "method" in message and "id" in message:
            self.answers = {message["method"]: answer(message["method"], message.get("params") or {})}
        await super()._take(line)


@dataclass
class Run:
    """An agent attached to the hub, in one era. `login` signs in where a server asks for it; no hub, no signing in."""

    agent: Agent
    modern: bool
    hub: Hub | None = None
    prefix: str = PREFIX
    context: Mapping[str, Any] = field(default_factory=dict)

    async def request(self, method: str, params: Message | None = None, *, timeout: float = 30) -> Message:
        """The whole response, once nothing more is asked: each question of a round is answered."""
        params = params or {}
        response = await self.once(method, params, timeout)
        for _ in range(ROUNDS):
            result = response.get("result", {})
            if result.get("resultType") != "input_required":
                return response
            response = await self.once(method, {**params, **answers(result)}, timeout)
        return response

    async def once(self, method: str, params: Message, timeout: float) -> Message:
        """One round. What came back is told on stdout, which the suite keeps."""
        if self.modern:
            meta = modern_meta(MODERN, CAPABILITIES)
            response = await self.agent.modern(method, params, meta=meta, timeout=timeout)
        else:
            response = await self.agent.request(method, params, timeout=timeout)
        print(f"{method} {params.get('name', '')}: {json.dumps(response)[:500]}", flush=True)
        return response

    async def listed(self, method: str, key: str) -> list[Message]:
        """Every page of a list; nothing where the hub has no such list."""
        found: list[Message] = []
        params: Message = {}
        while "result" in (response := await self.request(method, params)):
            found += response["result"][key]
            if (cursor := response["result"].get("nextCursor")) is None:
                break
            params = {"cursor": cursor}
        return found

    async def tools(self) -> list[Message]:
        """The tools, once the server is connected or will not be. Signs in where it asks for it."""
        found = await self.listed("tools/list", "tools")
        for _ in range(SIGN_INS):
            if await self.settled() != "needs-auth" or not await self.login():
                break
            await self.settled()
            found = await self.listed("tools/list", "tools")
        return found or await self.listed("tools/list", "tools")

    async def call(self, tool: str, arguments: Message | None = None) -> Message:
        """The response to one call by the server's own name of the tool; signs in as often as that is the answer."""
        params = {"name": self.prefix + tool, "arguments": arguments or {}}
        response = await self.request("tools/call", params)
        for _ in range(SIGN_INS):
            if f"mcphub login {SERVER}" not in json.dumps(response) or not await self.login():
                break
            await self.settled()
            response = await self.request("tools/call", params)
        return response

    async def settled(self) -> str:
        """The server's state, when it is one that does not pass by itself."""
        if self.hub is None:
            return "connected"

        def state(report: Message) -> str:
            rows = [server["state"] for server in report["servers"] if server["name"] == SERVER]
            return str(rows[0]) if rows else "absent"

        try:
            report = await self.hub.until(lambda report: state(report) != "pending", timeout=15)
        except AssertionError as error:
            print(error, file=sys.stderr)
            return "pending"
        return state(report)

    async def login(self) -> bool:
        """`mcphub login`, with a browser that needs no person: whether it came to something. A refusal is an outcome as
        good as any."""
        if self.hub is None:
            return False
        command = [str(MCPHUB), "login", SERVER]
        env = self.hub.place.environment(BROWSER=BROWSER)
        with anyio.move_on_after(20) as scope:
            done = await anyio.run_process(
                command, check=False, env=env, stdout=sys.stderr.fileno(), stderr=None, stdin=subprocess.DEVNULL
            )
            return done.returncode == 0
        assert scope.cancelled_caught
        print("mcphub login did not end within 20 s", file=sys.stderr)
        return False


def answers(result: Message) -> Message:
    """What is added to a request that is sent again after an `input_required` result."""
    asked = result.get("inputRequests") or {}
    given: Message = {}
    if asked:
        given["inputResponses"] = {key: answer(one["method"], one.get("params") or {}) for key, one in asked.items()}
    if "requestState" in result:
        given["requestState"] = result["requestState"]
    return given


# -- scenarios: what the agent does beside attaching


async def only_connect(run: Run) -> None:
    await run.settled()


async def only_list(run: Run) -> None:
    await run.tools()


async def add_numbers(run: Run) -> None:
    await run.tools()
    await run.call("add_numbers", {"a": 5, "b": 3})


async def elicitation_defaults(run: Run) -> None:
    await run.tools()
    await run.call("test_client_elicitation_defaults")


async def reconnection(run: Run) -> None:
    await run.tools()
    await run.call("test_reconnection")


async def request_state(run: Run) -> None:
    """An unrelated call goes out between the rounds of another, the place where a state could be mixed up."""
    await run.tools()
    params: Message = {"name": run.prefix + "test_mrtr_echo_state", "arguments": {}}
    first = await run.once("tools/call", params, 30)
    await run.call("test_mrtr_unrelated")
    if first.get("result", {}).get("resultType") == "input_required":
        await run.once("tools/call", {**params, **answers(first["result"])}, 30)
    await run.call("test_mrtr_no_state")
    await run.call("test_mrtr_no_result_type")


async def standard_headers(run: Run) -> None:
    for tool in await run.tools():
        await run.request("tools/call", {"name": tool["name"], "arguments": {}})
    for resource in await run.listed("resources/list", "resources"):
        await run.request("resources/read", {"uri": resource["uri"]})
    for prompt in await run.listed("prompts/list", "prompts"):
        needed = [one["name"] for one in prompt.get("arguments") or () if one.get("required")]
        await run.request("prompts/get", {"name": prompt["name"], "arguments": dict.fromkeys(needed, "x")})


async def custom_headers(run: Run) -> None:
    await run.tools()
    for call in run.context["toolCalls"]:
        await run.call(call["name"], call["arguments"])


async def call_what_is_listed(run: Run) -> None:
    for tool in await run.tools():
        names = tool["inputSchema"].get("properties", {})
        await run.request("tools/call", {"name": tool["name"], "arguments": dict.fromkeys(names, "x")})


async def echo_schema(run: Run) -> None:
    for tool in await run.tools():
        if tool["name"].endswith("json_schema_2020_12_tool"):
            await run.call("json_schema_echo", {"schema": tool["inputSchema"]})


async def authorized_call(run: Run) -> None:
    await run.tools()
    await run.call("test-tool")


SCENARIOS: dict[str, Callable[[Run], Awaitable[None]]] = {
    "initialize": only_connect,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": reconnection,
    "request-metadata": add_numbers,
    "sep-2322-client-request-state": request_state,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": call_what_is_listed,
    "json-schema-ref-no-deref": only_list,
    "json-schema-2020-12-preservation": echo_schema,
}


def plan(scenario: str) -> Callable[[Run], Awaitable[None]]:
    return SCENARIOS.get(scenario, authorized_call if scenario.startswith("auth/") else only_list)


# -- the hub's configuration


@dataclass(frozen=True, slots=True)
class Setup:
    """The entry for the mock, what else the hub's settings say, and variables of the hub's process (secrets)."""

    entry: Mapping[str, Any]
    settings: str
    env: Mapping[str, str]


def setup(scenario: str, context: Mapping[str, Any], url: str, issuer: str = "", key: str = "") -> Setup:
    """What a person would configure for this scenario. The era stays to be probed. `issuer` is who may see the client's
    credentials, `key` the file of the vault's key."""
    oauth: dict[str, Any] = {}
    env = {"BROWSER": BROWSER}
    # A first list waits until the server is there, as long as the suite's patience allows.
    settings = "[lists]\nwait = 20\n"
    if key:
        settings += f"[vault]\nkey = {json.dumps(f'file:{key}')}\n"
    if scenario in ("auth/basic-cimd", "auth/offline-access-scope", "auth/offline-access-not-supported"):
        oauth["clientMetadataUrl"] = METADATA_URL
    if "client_id" in context:
        oauth["clientId"] = context["client_id"]
    if issuer:
        oauth["issuer"] = issuer
    if "client_secret" in context:
        oauth["clientSecret"] = f"${{{CLIENT_SECRET}}}"
        env[CLIENT_SECRET] = context["client_secret"]
    if scenario.startswith("auth/client-credentials-"):
        oauth["grant"] = "client_credentials"
    if "private_key_pem" in context:
        oauth["privateKey"] = f"${{{PRIVATE_KEY}}}"
        env[PRIVATE_KEY] = context["private_key_pem"]
    if "valid_jwt" in context:
        oauth |= {"grant": "jwt-bearer", "assertion": {"env": WORKLOAD}}
        env[WORKLOAD] = context["valid_jwt"]
    if "idp_issuer" in context:
        oauth["xaa"] = True
        idp = f"issuer = {json.dumps(context['idp_issuer'])}\nclientId = {json.dumps(context['idp_client_id'])}\n"
        settings += f"[xaaIdp]\n{idp}"
    entry = {"type": "http", "url": url, **({"oauth": oauth} if oauth else {})}
    return Setup(entry, settings, env)


def issuer_of(url: str) -> str:
    """Whom the server at `url` names as its authorization server, first; "" = nobody."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    for candidate in (place + parts.path.rstrip("/"), place):
        try:
            with urllib.request.urlopen(candidate, timeout=10) as answer:
                named = json.load(answer).get("authorization_servers") or [""]
                return str(named[0])
        except (urllib.error.URLError, ValueError):
            continue
    return ""


def logged_in(place: Place, key: str, context: Mapping[str, Any]) -> None:
    """What a login at the organisation's provider leaves in the vault of this place."""
    token = context["idp_id_token"]
    claims = claims_of(token) or {}
    issuer, client_id = context["idp_issuer"], context["idp_client_id"]
    login = IdpSession(
        issuer, client_id, Secret(token), claims["sub"], float(claims["exp"]), context["idp_token_endpoint"]
    )
    path = place.root / "state" / "mcphub" / "vault"
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    VaultFile(str(path), f"file:{key}", {}).put(IDP, idp_key(issuer, client_id), encoded(login))


# -- one scenario


async def attached(hub: Hub, modern: bool) -> Agent:
    agent = AnsweringAgent(await anyio.connect_unix(hub.place.agent_socket))
    if not modern:
        await agent.initialize(LEGACY, CAPABILITIES)
    return agent


async def drive(scenario: str, modern: bool, context: Mapping[str, Any], url: str) -> None:
    """Starts a hub of its own, does what the scenario wants, and leaves nothing behind."""
    place = Place()
    key = str(place.root / "vault-key")
    made = setup(scenario, context, url, issuer_of(url) if scenario in PINNED else "", key)
    if "idp_id_token" in context:
        logged_in(place, key, context)
    try:
        with anyio.fail_after(LIMIT):
            async with (
                running({SERVER: made.entry}, settings=made.settings, place=place, env=made.env) as hub,
                await attached(hub, modern) as agent,
            ):
                await plan(scenario)(Run(agent, modern, hub, PREFIX, context))
    finally:
        if place.stderr.exists():
            sys.stderr.write(place.stderr.read_text("utf-8", "replace"))
        place.remove()


async def until_told(scenario: str, modern: bool, context: Mapping[str, Any], url: str) -> None:
    """`drive`, ended in an orderly way by SIGTERM or SIGINT, so that no hub is left."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                async for _ in signals:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await drive(scenario, modern, context, url)
            tasks.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(prog="driver.py")
    parser.add_argument("--crossed", action="store_true", help="the agent speaks the other era than the mock")
    parser.add_argument("url")
    args = parser.parse_args()
    modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] == MODERN
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    with suppress(KeyboardInterrupt):
        anyio.run(until_told, scenario, modern != args.crossed, context, args.url)


if __name__ == "__main__":
    main()
