"""Owns the names by which a failure is told apart: its root, where it happened, whether to try again, what to do.

It must not know who makes an error, nor its shape. Names are stable: agents and scripts branch on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

#: protocol: a peer said something else than the protocol allows, or refused in its words. transport: an answer did not
#: come, or a request did not go. local: mcphub itself decided. What a tool says by `isError` is none of them.
Root = Literal["protocol", "transport", "local"]
#: Where it failed, along the way of a call. agent: the request itself. hub: mcphub, its limits and its own end.
#: configuration: an entry, a rule, a switch. sign-in: credentials. process: the server's program. network: the way to
#: its host. connection: what is spoken over that way. server: the server answered.
Layer = Literal["agent", "hub", "configuration", "sign-in", "process", "network", "connection", "server"]
#: Whether the server may have acted on the call.
Effects = Literal["none", "unknown", "possible"]


class Kind(msgspec.Struct, frozen=True):
    """One name. `retryable`: the same call may be made again as it is, without danger, and may do then. `meaning` and
    `advice` are a sentence or two for whoever gets it, `example` a message of it."""

    name: str
    root: Root
    layer: Layer
    retryable: bool
    effects: Effects
    meaning: str
    advice: str
    example: str

    @property
    def help(self) -> str:
        """Where it is written about."""
        return f"docs/errors.md#{self.name}"


def _by_name(kinds: Iterable[Kind]) -> dict[str, Kind]:
    return {kind.name: kind for kind in kinds}


#: What agents get: under `dev.mcphub/error` in the `data` of an error or the `_meta` of a tool result.
TOLD = _by_name(
    [
        # --- of the request itself ---
        Kind(
            "invalid_request", "protocol", "agent", False, "none",
            "The message is no request as MCP or JSON-RPC has them: it cannot be parsed, its `_meta` or its id is "
            "wrong, or it comes at the wrong time.",
            "Correct the message. This is a matter of the agent's program, not of its model.",
            "this id is in flight already",
        ),
        Kind(
            "invalid_params", "protocol", "agent", False, "none",
            "A member of `params` is missing, or of the wrong type.",
            "Correct the request.",
            "tools/call: `arguments` must be an object",
        ),
        Kind(
            "unknown_method", "protocol", "agent", False, "none",
            "mcphub, or the server that was meant, has no such method in the era that the agent speaks.",
            "Do without it.",
            "Method not found: tools/frobnicate",
        ),
        Kind(
            "unsupported_version", "protocol", "agent", False, "none",
            "The request names a version of MCP that mcphub does not speak.",
            "Use one of those in `data.supported`.",
            "unsupported protocol version '1900-01-01'",
        ),
        Kind(
            "unknown_task", "protocol", "agent", False, "none",
            "The agent has no task of this id: it does not exist, is another agent's, or its server is gone.",
            "Use the `taskId` that the call to the tool was answered with.",
            "Failed to find the task: it does not exist, or is another agent's",
        ),
        Kind(
            "unknown_tool", "protocol", "agent", False, "none",
            "No server that this agent sees has a tool of this name.",
            "List the tools again, and use a name from there.",
            "unknown tool 'mcp__db__qery': tools/list has the names",
        ),
        Kind(
            "unknown_prompt", "protocol", "agent", False, "none",
            "No server that this agent sees has a prompt of this name.",
            "List the prompts again, and use a name from there.",
            "unknown prompt 'mcp__db__sumary': prompts/list has the names",
        ),
        Kind(
            "unknown_resource", "protocol", "agent", False, "none",
            "No server that this agent sees has this resource, or several have it.",
            "List the resources again, and use a URI from there; where several have it, the message names the choices.",
            "resource not found: file:///nowhere",
        ),
        Kind(
            "not_subscribable", "protocol", "agent", False, "none",
            "The resource cannot be subscribed to: no one server has it, or its server does not offer that.",
            "Read it again when it is needed.",
            "file:///a cannot be subscribed to: no one server has it, or its server does not offer that",
        ),
        Kind(
            "bad_state", "protocol", "agent", False, "none",
            "The `requestState` that was brought back is not one that mcphub gave to this agent for this request, or "
            "is too old.",
            "Make the call anew, without `requestState`; where it was only too old, find out first whether the call "
            "that it belongs to had effects.",
            "requestState is not valid for this request",
        ),
        Kind(
            "validation", "local", "agent", False, "none",
            "The arguments certainly do not fit the tool's own `inputSchema`. They were not sent.",
            "Correct the arguments; the message names the places.",
            "The arguments do not fit the schema of query: limit: expected an integer. Nothing was sent; correct them.",
        ),
        Kind(
            "undeclared_capability", "protocol", "agent", False, "possible",
            "The server wants to ask for something, such as a form or a model, that the agent did not declare.",
            "Use an agent that can be asked for what `data.requiredCapabilities` names, or do without the tool. Where "
            "the message says that a task had begun, find out first what it has done.",
            "the server db cannot do query without input: the agent did not declare elicitation.form",
        ),
        Kind(
            "input_refused", "local", "agent", False, "possible",
            "The server wanted the agent's model, or its roots, in the middle of the call, and the agent refused.",
            "Make the call again only where the agent will allow that.",
            "the server db wanted sampling/createMessage (a) for query, which was refused: no",
        ),
        Kind(
            "input_timeout", "local", "agent", False, "possible",
            "The server needed input in the middle of the call, and nobody gave it in time.",
            "Make the call again when somebody is there to answer.",
            "the server db needs input for query, and nobody gave it within 900 s",
        ),
        Kind(
            "declined", "local", "agent", False, "none",
            "A person had to open a page first, and declined. Nothing was sent.",
            "Ask the person what to do instead.",
            "The server db needs a page to be opened in a browser first, and that was declined. Nothing was sent.",
        ),
        # --- of mcphub ---
        Kind(
            "stopping", "local", "hub", True, "none",
            "mcphub is being stopped. The request was not sent, or it only reads.",
            "Make the call again once mcphub runs.",
            "mcphub is stopping: query was not sent to the server db; call it again once mcphub runs",
        ),
        Kind(
            "busy", "local", "hub", True, "none",
            "Calls of different agents to this server take turns, and it did not come to this one in time. Where "
            "another agent has been asked something there and has not answered, the message names it.",
            "Make the call again a little later.",
            "query was not sent to the server db: other agents' calls were in the way for 600 s; it can be called "
            "again",
        ),
        Kind(
            "overloaded", "local", "hub", True, "none",
            "There is no room for the call: the server does not read what it was sent before, or too much waits, or it "
            "comes faster than is allowed. The message names the limit, and where it is set.",
            "Make the call again after `retryAfterMs`, or a few seconds.",
            "The server db does not read its requests (overloaded). Try again later.",
        ),
        Kind(
            "task_budget", "local", "agent", False, "none",
            "The budget that the agent itself named for its task (`dev.mcphub/task` in `_meta`) is used up: its "
            "deadline has passed, or it has made all of its calls. Nothing was sent.",
            "End the task with what is known, or name a larger budget.",
            "query was not called: the task 'report-7' has made all of its 50 calls. Nothing was sent.",
        ),
        Kind(
            "circuit_open", "local", "hub", True, "none",
            "Several calls of this agent in a row got no answer from this server, so that further ones of their kind, "
            "those that read or those that may write, are held back for a while. Nothing was sent.",
            "Make the call again after `retryAfterMs`: one is let through then, to see whether the server answers. "
            "`mcphub status NAME` shows what happened.",
            "The server db is not asked for query: 5 of your calls that only read in a row got no answer (no answer in "
            "time). The next one is let through in 5 s. Nothing was sent.",
        ),
        Kind(
            "too_many_parked", "local", "hub", False, "possible",
            "The server asked something in the middle of the call, and too many calls wait for an answer already. The "
            "call was ended. Where its tool is known to only read, `retryable` is true.",
            "Answer, or give up, what waits; find out whether the call had effects before it is made again. What was "
            "sent says `mcphub calls` with the `operationId` in the error's data.",
            "the server db asks for input during insert, and 20 calls of this agent wait for an answer already; "
            "whether it had effects is unknown, check before calling it again (what was sent: mcphub calls "
            "op_5f3a90c21b)",
        ),
        Kind(
            "request_state_lost", "local", "hub", False, "unknown",
            "The call that waited for this answer is gone: mcphub was restarted, nobody came back in time, its request "
            "was cancelled (by the agent, or by the end of its connection), or it has ended and what it came to is no "
            "longer kept. The message says which, where mcphub knows. It may have had effects, also before its server "
            "asked. Of a request that only reads, not of a tool, `retryable` is true.",
            "Look whether it had effects, by a tool that reads; call it again, without `requestState`, only if it had "
            "none. What was sent, and what is known of it, says `mcphub calls` with the `operationId` in the error's "
            "data.",
            "the call of insert at the server db that waited for this answer is gone: the time for the answer was "
            "over; whether it had effects is unknown, check before calling it again (what was sent: mcphub calls "
            "op_5f3a90c21b)",
        ),
        # --- of files and people ---
        Kind(
            "withheld", "local", "configuration", False, "none",
            "The tool is there, and agents may not use it: a rule, the entry, or a change of the tool that nobody has "
            "approved takes it away.",
            "Do without it, or ask a person, who sees the reason in `mcphub tools`.",
            "The tool query of db is withheld: its description is another one than when the server was first used.",
        ),
        Kind(
            "disabled", "local", "configuration", False, "none",
            "The server is configured and does not run: it waits for approval, a rule forbids it, or a person switched "
            "it off.",
            "Ask a person; `mcphub why NAME` says what would change it.",
            "The server db is disabled (person): it was switched off",
        ),
        Kind(
            "removed", "local", "configuration", False, "none",
            "The server is not configured any more.",
            "List the tools again.",
            "The server db was removed from the configuration; its tools are gone. List the tools again.",
        ),
        # --- of servers that cannot be called now ---
        Kind(
            "unavailable", "transport", "connection", True, "none",
            "The server is not connected now: it has not started in time, was lost, or is down and tried again by "
            "itself. Nothing was sent. `fault` says what is wrong with it, where that is known, and `layer` where.",
            "Make the call again after `retryAfterMs`, or a few seconds; do something else meanwhile.",
            "The server db is down: the process ended. mcphub tries again in 4 s (retry 3); `mcphub reconnect db` "
            "tries at once.",
        ),
        Kind(
            "server_failed", "transport", "connection", False, "none",
            "The server could not be started, or reached, and mcphub has given up trying. Nothing was sent. `fault` "
            "says what is wrong with it, `layer` where.",
            "Tell a person, who sees more by `mcphub status NAME`; until then do without it.",
            "The server db has failed: cannot find command 'db-mcp'. What to do: install the program.",
        ),
        Kind(
            "not_taken", "transport", "connection", True, "none",
            "The session that the request was for was over, and no other one took it. The server has not acted on it.",
            "Make the call again.",
            "The server db could not be asked for query: its session was over before the server acted on it.",
        ),
        Kind(
            "rate_limited", "transport", "server", True, "none",
            "The server, or what stands in front of it, wants fewer requests. It has not acted on this one.",
            "Make the call again after `retryAfterMs`, or some seconds.",
            "The server db could not be asked for query: HTTP 429 Too Many Requests.",
        ),
        # --- of answers that did not come ---
        Kind(
            "outcome_unknown", "transport", "connection", False, "unknown",
            "The call was sent, and no answer will come: the connection was lost, time ran out, or mcphub was stopped. "
            "The tool is not known to only read (it does not say so, or its word is not believed), so it may have had "
            "effects. mcphub never sends it again.",
            "Look whether it had effects, by a tool that reads; call it again only if it had none. What was sent, "
            "when and by whom says `mcphub calls` with the `operationId` in the error's data.",
            "the connection to the server db was lost during insert: the process ended; whether it had effects is "
            "unknown, check before calling it again (what was sent: mcphub calls op_5f3a90c21b)",
        ),
        Kind(
            "timeout", "local", "connection", True, "none",
            "mcphub waited for an answer as long as it may, and gave up; the server said nothing. The tool is known to "
            "only read. Or its server asked for input until the time was over; then `retryable` is false.",
            "Make the call again, or ask for less at once.",
            "the server db did not answer query within 600 s; the tool only reads, so it can be called again",
        ),
        # --- of answers that cannot be used ---
        Kind(
            "task_cancelled", "protocol", "server", False, "possible",
            "The server made a task of the call, and ended it without a result.",
            "Check what was done before calling the tool again.",
            "the server db ended the task of query as cancelled",
        ),
        Kind(
            "unreadable", "protocol", "server", True, "none",
            "The server answered with what is no message of the protocol. The tool is known to only read.",
            "Make the call again, or do without the tool; its server should be mended.",
            "the server db answered query with what cannot be read: invalid character; the tool only reads, so it can "
            "be called again",
        ),
        Kind(
            "unsupported_result", "protocol", "server", False, "possible",
            "The server answered with a kind of result that was not agreed on.",
            "Do without the tool; its server should be mended.",
            "the server db gave an unsupported result type: weird",
        ),
        Kind(
            "upstream_protocol", "protocol", "server", False, "none",
            "The server refused mcphub's own part of the request, which is no matter of the agent's.",
            "Tell a person: either the server or mcphub is wrong.",
            "the server db refused mcphub's request: header mismatch",
        ),
        Kind(
            "server_error", "protocol", "server", False, "unknown",
            "The server itself answered with a JSON-RPC error. Its code and its message are the server's; where the "
            "agent's era gives that code another meaning, or its data is no object, the original is in "
            "`data[\"dev.mcphub/upstream\"]`.",
            "Do what the server's message says; the same call will most likely fail again.",
            "Unknown table: customer",
        ),
        Kind(
            "too_many_rounds", "protocol", "server", False, "possible",
            "The server asked for input again and again because of one call.",
            "Do without the tool; its server should be mended.",
            "the server db asked more than 10 times because of query",
        ),
        Kind(
            "needs_page", "protocol", "sign-in", False, "none",
            "The server wants a page to be opened in a browser first, which this agent cannot show to a person.",
            "Ask the person to open what the server needs, in an agent that can show it, then call again.",
            "the server db needs a page to be opened in a browser first: consent is missing",
        ),
    ]
)  # fmt: skip

#: What rows of the status have as `last_error.kind`, and errors for agents as `fault`; some are told to agents too.
FAULTS = _by_name(
    [
        Kind(
            "config", "local", "configuration", False, "none",
            "The server's entry cannot be used.",
            "Correct the entry, then run `mcphub reconnect NAME`.",
            "cannot use server db: url: expected a string",
        ),
        Kind(
            "not_found", "local", "process", False, "none",
            "The program of the entry is not there.",
            "Install it, name it by its absolute path, or put its folder on PATH (`mcphub env path` shows it).",
            "cannot start db: there is no command 'db-mcp'",
        ),
        Kind(
            "spawn", "local", "process", True, "none",
            "The program is there and cannot be started.",
            "See the cause in the message.",
            "cannot start command 'db-mcp': permission denied",
        ),
        Kind(
            "exited", "transport", "process", True, "unknown",
            "The program ended by itself.",
            "Read `mcphub logs NAME`.",
            "the process exited with status 1",
        ),
        Kind(
            "no_answer", "transport", "server", True, "none",
            "The server was started, or reached, and did not answer in time while it was connected.",
            "Run the command by hand; a slow first start may need a larger `startupTimeout`.",
            "no answer to initialize within 30 s",
        ),
        Kind(
            "not_protocol", "protocol", "server", True, "none",
            "What the server writes is not the protocol.",
            "Make the program write its logs to stderr: stdout is for the protocol.",
            "the server wrote 'Listening on port 3000' where a message was expected",
        ),
        Kind(
            "content_length", "protocol", "server", False, "none",
            "The program speaks the framing of language servers.",
            "Start it in MCP mode.",
            "the server frames its messages by Content-Length",
        ),
        Kind(
            "refused", "protocol", "server", False, "none",
            "The server and mcphub have no version of the protocol in common.",
            "Update the server.",
            "the server supports 2030-01-01, mcphub none of them",
        ),
        Kind(
            "pinned_era", "protocol", "configuration", False, "none",
            "The entry says by `era` how the server is to be spoken to, and the server speaks otherwise.",
            "Take `era` out of the entry.",
            "the entry says era modern, and the server answers server/discover with -32601",
        ),
        Kind(
            "list_failed", "protocol", "server", True, "none",
            "The server is connected and cannot say which tools it has.",
            "Read `mcphub logs NAME`.",
            "tools/list failed: internal error",
        ),
        Kind(
            "too_large", "protocol", "server", True, "unknown",
            "The server sent one message above the limit.",
            "Ask for less at once.",
            "a message is larger than 64 MiB",
        ),
        Kind(
            "lost", "transport", "connection", True, "none",
            "The connection was lost. Where an agent is told so, its call was not sent, or its tool is known "
            "to only read.",
            "Make the call again; mcphub reconnects by itself.",
            "the connection to the server db was lost during query: the process ended; the tool only reads, so it can "
            "be called again",
        ),
        Kind(
            "unresponsive", "transport", "server", True, "unknown",
            "The server is connected and answers nothing at all, not even what costs nothing.",
            "mcphub starts it anew by itself; see `healthCheck` in the reference of entries.",
            "it did not answer 3 pings in a row",
        ),
        Kind(
            "unreachable", "transport", "network", True, "none",
            "There is no connection to the server's host: its name, its port, a proxy or the network.",
            "Check the url, the network and, where one is needed, HTTPS_PROXY or HTTP_PROXY; mcphub goes on trying.",
            "nothing listens at 127.0.0.1:9",
        ),
        Kind(
            "tls", "transport", "network", False, "none",
            "The server's certificate cannot be trusted, or TLS with it failed.",
            "Where your own company signs the certificate, name that of the company by SSL_CERT_FILE or "
            "NODE_EXTRA_CA_CERTS; else correct what the message names: the url, or `tls` of the entry.",
            "the certificate of mcp.example cannot be trusted: self-signed certificate",
        ),
        Kind(
            "http_status", "transport", "server", False, "none",
            "The server, or what stands in front of it, answered with an HTTP status that says no. Where an agent is "
            "told so, the server has not acted on its call, and would refuse it again.",
            "Check the url, the headers and the type of the entry; where only one call is refused, what the message "
            "says.",
            "HTTP 404 Not Found",
        ),
        Kind(
            "http_unavailable", "transport", "server", True, "none",
            "The server, or what stands in front of it, is in trouble or busy.",
            "mcphub goes on trying.",
            "HTTP 503 Service Unavailable",
        ),
        Kind(
            "needs_auth", "transport", "sign-in", False, "none",
            "The server wants credentials that mcphub does not have, or not any more. It has not acted on the call.",
            "A person signs in by `mcphub login NAME`, or sets a header in the entry; then the call can be made again.",
            "The server db needs a person to sign in: mcphub login db. A person must do that.",
        ),
        Kind(
            "session_expired", "transport", "connection", True, "none",
            "The server has forgotten mcphub's session with it. It has not acted on the call.",
            "Make the call again; mcphub begins a new session by itself.",
            "The server db could not be asked for query: its session was over.",
        ),
        Kind(
            "internal", "local", "hub", True, "unknown",
            "This is a fault of mcphub.",
            "Please report it with the daemon's log.",
            "internal error: KeyError",
        ),
    ]
)  # fmt: skip

#: What stands beside a result that is given all the same, under `dev.mcphub/warning` in its `_meta`.
WARNINGS = _by_name(
    [
        Kind(
            "output_schema", "protocol", "server", False, "possible",
            "The result does not fit the tool's own `outputSchema`. It is given as the server sent it.",
            "Do not rely on the shape of `structuredContent`.",
            "the result does not fit the tool's outputSchema: rows: expected an array",
        ),
        Kind(
            "repeated_failure", "local", "agent", False, "unknown",
            "The same call has failed in the same way for the third time in a row, or more often. The call itself was "
            "done as always.",
            "Change the arguments, or do something else; ask a person where neither is possible.",
            "This is the third time in a row that this call fails in the same way: change it, or do something else.",
        ),
    ]
)  # fmt: skip

#: All of them by name.
KINDS = {**TOLD, **FAULTS, **WARNINGS}
