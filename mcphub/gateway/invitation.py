"""Owns how an agent is asked to send its person to mcphub's own page, where a sign-in to a server begins.

It must not know that page, nor whether anybody signs in: the call is to be made again afterwards. Legacy agents get the
error -32042, modern ones a question (MCP spec 2025-11-25 and 2026-07-28, client/elicitation).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.gateway import url_steps
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import RESULT_META
from mcphub.protocol.jsonrpc import EMPTY, Raw

#: What the question is called; no server's question has this name.
KEY = "dev.mcphub/sign-in"
#: What was answered to it.
YES, NO = "yes", "no"
#: The only older version that knows pages.
LEGACY = "2025-11-25"

_members = msgspec.json.Decoder(dict[str, Raw]).decode


def can_be_asked(modern: bool, version: str, declared: Mapping[str, object]) -> bool:
    """Whether an agent of this version, which declared this, can be sent to a page."""
    return (modern or version == LEGACY) and url_steps.opens_pages(declared)


def page_id(page: str) -> str:
    """The id of one of mcphub's own pages, which is in its URL."""
    return page.rpartition("/")[2]


def invite(mid: bytes, server: str, page: str, modern: bool) -> bytes:
    """The answer to a call to a server that needs a sign-in: the frame. `page` is where it begins."""
    message = (
        f"[{server}] needs you to sign in. This page of mcphub, on this machine, says where the sign-in is before you "
        "go on. When you have signed in, make the call again."
    )
    if modern:
        params = {"mode": "url", "url": page, "message": message}
        asked = msgspec.json.encode({KEY: {"method": "elicitation/create", "params": params}})
        head = b'{"resultType":"input_required","_meta":{%b},"inputRequests":' % RESULT_META
        return jsonrpc.result_frame(mid, head + asked + b"}")
    step = url_steps.Step(url=page, message=message, elicitationId=page_id(page))
    text = f"The server {server} needs a person to sign in: mcphub login {server}"
    return jsonrpc.error_frame(mid, url_steps.CODE, text, url_steps.as_data([step]))


def taken_out(responses: Raw) -> tuple[Raw, str]:
    """What an agent answered, without the answer to our own question; and that: YES, NO, "" = there is none."""
    if KEY.encode() not in bytes(responses):
        return responses, ""
    try:
        found = _members(responses)
    except (msgspec.DecodeError, RecursionError):
        return responses, ""
    mine = found.pop(KEY, None)
    if mine is None:
        return responses, ""
    no = url_steps.declined(Raw(b'{"x":' + bytes(mine) + b"}"))
    return (Raw(msgspec.json.encode(found)) if found else EMPTY), NO if no else YES


def not_yet(server: str) -> str:
    """What is said of a call that comes again before anybody has signed in."""
    return (
        f"Nobody has signed in to the server {server} yet. The page is open in a browser, or `mcphub login {server}` "
        "in a terminal does the same. Make the call again when that is done."
    )
