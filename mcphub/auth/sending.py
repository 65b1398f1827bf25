"""Owns how requests of signing in travel: over HTTP, to allowed places, without redirects, within limits (S1-S4, S10).

It must not know what is asked. Each request has a connection of its own: there are few, and none may bring anything
from another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcphub import __version__
from mcphub.address import address, is_loopback
from mcphub.auth import urls
from mcphub.auth.flow import Answered, Ask, Reply, Trouble, Unanswered
from mcphub.auth.records import Account
from mcphub.errors import TransportError

if TYPE_CHECKING:
    from mcphub.net import HttpClient
    from mcphub.outbound.guard import Guard, Range

#: Seconds for the head of an answer and for the whole; bytes of an answer.
BEGIN = 15.0
WHOLE = 30.0
MOST = 256 << 10
#: Seconds for the addresses of a name that is only judged.
LOOK = 3.0

_KINDS: Mapping[str, Trouble] = {
    "forbidden": "unsafe", "unreachable": "unreachable", "tls": "tls", "config": "unsafe", "no_response": "timeout"
}
_KEPT = (b"content-type", b"retry-after", b"dpop-nonce", b"cache-control", b"www-authenticate")


class HttpSender:
    """Implements drive.Sender for one account. `environment` is the hub's: proxies and authorities."""

    def __init__(self, account: Account, environment: Callable[[], Mapping[str, str]]) -> None:
        self._account = account
        self._environment = environment

    async def __call__(self, ask: Ask) -> Reply:
        if why := urls.fault(ask.url, plain=self._account.plain):
            return Unanswered("unsafe", why)
        net = await anyio.to_thread.run_sync(importlib.import_module, "mcphub.net")
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in ask.headers]
        headers += [(b"User-Agent", b"mcphub/" + __version__.encode()), (b"Accept-Encoding", b"gzip, deflate")]
        sent = False
        try:
            with anyio.fail_after(WHOLE):
                guard = await self._guard()
                async with net.http_client(ask.url, self._environment(), guard=guard, follow=False) as client:
                    sent = True
                    return await _exchange(client, ask, headers)
        except TimeoutError:
            return Unanswered("timeout", f"no whole answer within {WHOLE:g} s", sent)
        except TransportError as e:
            kind: Trouble = _KINDS.get(e.kind, "lost")
            may_have_acted = kind in ("lost", "timeout")
            return Unanswered(kind, str(e), may_have_acted)

    async def _guard(self) -> Guard:
        """What may be asked beside public places: this machine and link-local ones only where the server's own URL says
        so in plain words, of private networks the range that the server itself is in, by all of its addresses."""
        from mcphub.outbound.guard import Guard, network_of, range_of
        from mcphub.outbound.lookup import look_up

        url = str(self._account.url)
        _scheme, host, port = urls.origin(url)
        ranges: set[Range] = set()
        networks: set[str] = set()
        known = address(host)
        if known is not None:
            ranges.add(range_of(known))
            networks.add(network_of(known))
        elif is_loopback(host):
            ranges.add("loopback")
        else:
            try:
                for *_, where in await look_up(host, port):
                    found = address(str(where[0]).partition("%")[0])
                    networks.add(network_of(found) if found is not None else "")
            except (OSError, UnicodeError):
                pass  # it cannot be reached itself: nothing more is allowed for it
        if "" in networks:
            networks.clear()  # a public address among them would let whoever has the name choose the others
        hosts = frozenset(host.lower() for host in self._account.oauth.hosts)
        return Guard(frozenset(ranges - {"special", "private"}), hosts, frozenset(networks))

    async def forbidden(self, url: str) -> str:
        """Why a request may not go to this URL, as far as it can be judged without sending one; see Home."""
        if why := urls.fault(url, plain=self._account.plain):
            return why
        from mcphub.outbound.guard import Forbidden
        from mcphub.outbound.lookup import look_up
        from mcphub.outbound.proxies import proxy_for

        scheme, host, port = urls.origin(url)
        guard = await self._guard()
        via, _ = proxy_for(scheme, host, port, self._environment())
        found: list[str] = []
        if address(host) is not None:
            found = [host.strip("[]")]
        elif not via:  # behind a proxy names are its own affair
            try:
                with anyio.move_on_after(LOOK):
                    found = [str(where[0]) for *_, where in await look_up(host, port)]
            except (OSError, UnicodeError):
                pass  # nothing is known; whoever connects will see
        try:
            for one in found:
                guard.check(host, port, one)
        except Forbidden as e:
            return str(e)
        return ""


async def _exchange(client: HttpClient, ask: Ask, headers: list[tuple[bytes, bytes]]) -> Reply:
    body = ask.body if ask.method != "GET" else None
    async with client.exchange(ask.method, headers, body, begin=BEGIN) as answer:
        if 300 <= answer.status < 400:
            to = f" to {answer.location}" if answer.location else ""
            return Unanswered("redirect", f"HTTP {answer.status}{to}: redirects are not followed here")
        found = await answer.read(MOST)
        if found is None:
            return Unanswered("too_large", f"the answer is larger than {MOST >> 10} KiB")
        kept = {name.decode("ascii"): value for name in _KEPT if (value := answer.header(name))}
        return Answered(answer.status, found, kept)
