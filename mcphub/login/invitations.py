"""Owns mcphub's own page on the loopback, where a person whom an agent sent begins a sign-in, or does not.

It must not open a browser, nor trust whoever asks: the kernel must say that it is the daemon's own user, the path is
one that nobody can guess, and it is good in the first browser that opens it alone. Nothing listens while there is none.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.to_thread

from mcphub.login.logins import Logins

if TYPE_CHECKING:
    # What a page takes is loaded with the first one: most daemons never have any.
    from mcphub.auth.credential import Credential
    from mcphub.auth.sign_in import SignIn
    from mcphub.login.loopback_http import Exchange, LoopbackServer, Response

FOLDER = "/sign-in/"
ONWARD = "/go"
COOKIE = "mcphub-sign-in"
#: Seconds for which a page can be opened, and pages at once.
LIFE = 600.0
MOST = 64
#: Seconds in which it is found out where the sign-in is.
BEGIN = 30.0

Log = Callable[[str, str], None]


class _Invitation:
    """One page. `cookie` is what the browser has that opened it first, "" = none has."""

    def __init__(self, credential: Credential) -> None:
        self.credential = credential
        self.cookie = ""
        self.sign_in: SignIn | None = None
        self.ends = anyio.current_time() + LIFE


class Invitations:
    """See the module. `owner` is the uid that may open a page."""

    def __init__(self, logins: Logins, log: Log, owner: int | None = None) -> None:
        self._logins = logins
        self._log = log
        self._owner = os.geteuid() if owner is None else owner
        #: Told of each page by which somebody has signed in, by its last path segment.
        self.done: Callable[[str], None] | None = None
        self._open: dict[str, _Invitation] = {}
        self._server: LoopbackServer | None = None
        self._wanted = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None

    def page_for(self, credential: Credential) -> str:
        """The URL of a page for this server, the same one until somebody opens it; "" where a sign-in helps nothing."""
        need = credential.need
        if need is None or not need.a_person_can or self._tasks is None:
            return ""
        self._forget()
        key = credential.account.key
        path = next((p for p, one in self._open.items() if one.credential.account.key == key and not one.cookie), "")
        if not path:
            if len(self._open) >= MOST:
                return ""
            path = secrets.token_urlsafe(32)
            self._open[path] = _Invitation(credential)
        if self._server is None:
            from mcphub.login.loopback_http import LoopbackServer

            try:
                self._server = LoopbackServer(0, self._serve)
            except OSError as error:
                self._log("warning", f"cannot offer a page for signing in: {error.strerror or error}")
                self._open.clear()
                return ""
            self._wanted.set()
        return f"http://127.0.0.1:{self._server.port}{FOLDER}{path}"

    async def run(self) -> None:
        """Serve pages while there are any, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                while True:
                    await self._wanted.wait()
                    self._wanted = anyio.Event()
                    if self._server is None:
                        continue
                    async with self._server.serving():
                        while self._open:
                            await anyio.sleep_until(min(one.ends for one in self._open.values()))
                            self._forget()
                        self._server = None
        finally:
            if self._server is not None:
                self._server.close()

    def _forget(self) -> None:
        now = anyio.current_time()
        for path in [path for path, one in self._open.items() if one.ends <= now]:
            del self._open[path]

    def _serve(self, exchange: Exchange) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(self._answer, exchange)

    async def _answer(self, exchange: Exchange) -> None:
        from mcphub.login.loopback_http import NOT_FOUND

        try:
            exchange.respond(await self._response(exchange))
        except Exception as error:
            self._log("error", f"internal error while showing a page for signing in: {error!r}")
            exchange.respond(NOT_FOUND)

    async def _response(self, exchange: Exchange) -> Response:
        from mcphub.login import pages
        from mcphub.login.loopback_http import NOT_FOUND, Response

        path, onward = exchange.path.removeprefix(FOLDER), False
        if path.endswith(ONWARD):
            path, onward = path.removesuffix(ONWARD), True
        if not exchange.path.startswith(FOLDER) or exchange.headers.get("sec-fetch-dest", "document") != "document":
            return NOT_FOUND
        if not await anyio.to_thread.run_sync(self._is_owner, exchange.peer, exchange.own):
            return Response(403, pages.NOT_YOURS)
        found = self._open.get(path)
        if found is None or found.ends <= anyio.current_time():
            return Response(404, pages.OVER)
        known = bool(found.cookie) and hmac.compare_digest(_cookie(exchange).encode(), found.cookie.encode())
        if (found.cookie or onward) and not known:
            return Response(404, pages.OVER)
        return await self._go_on(found) if onward else await self._show(path, found)

    def _is_owner(self, peer: tuple[str, int], own: tuple[str, int]) -> bool:
        """Whether this is the user whom the daemon belongs to, as far as the system says."""
        from mcphub.login.peer_uid import peer_uid

        try:
            uid = peer_uid(peer, own)
        except LookupError:
            return False
        return uid is None or uid == self._owner

    async def _show(self, path: str, found: _Invitation) -> Response:
        from mcphub.login import pages
        from mcphub.login.loopback_http import Response

        found.cookie = found.cookie or secrets.token_urlsafe(32)
        scope = f"Path={FOLDER}{path}; HttpOnly; SameSite=Strict; Max-Age={LIFE:.0f}"
        cookie = ("Set-Cookie", f"{COOKIE}={found.cookie}; {scope}")
        name = found.credential.account.name
        if found.sign_in is None or found.sign_in.over.is_set():
            if found.credential.need is None:
                self._tell(path)
                return Response(200, pages.signed_in_already(name), (cookie,))
            found.sign_in = self._logins.join(found.credential)
            if found.sign_in is not None and self._tasks is not None:
                self._tasks.start_soon(self._follow, path, found.sign_in)
        sign_in = found.sign_in
        if sign_in is None:
            return Response(200, pages.could_not_begin(name, "its configuration must change first"), (cookie,))
        with anyio.move_on_after(BEGIN):
            await sign_in.begun.wait()
        if not sign_in.url or sign_in.over.is_set():
            return Response(200, pages.could_not_begin(name, _why(sign_in)), (cookie,))
        return Response(200, pages.invitation(name, sign_in.host, f"{FOLDER}{path}{ONWARD}"), (cookie,))

    async def _follow(self, path: str, sign_in: SignIn) -> None:
        await sign_in.over.wait()
        if sign_in.failure is None and not sign_in.superseded:
            self._tell(path)

    def _tell(self, path: str) -> None:
        if self.done is not None:
            self.done(path)

    async def _go_on(self, found: _Invitation) -> Response:
        from mcphub.login import pages
        from mcphub.login.loopback_http import Response

        sign_in = found.sign_in
        if sign_in is None or not sign_in.url or sign_in.over.is_set():
            why = _why(sign_in) if sign_in is not None else "it has not begun"
            return Response(200, pages.could_not_begin(found.credential.account.name, why))
        return Response(303, "", (("Location", sign_in.url),))


def _why(sign_in: SignIn) -> str:
    if sign_in.superseded:
        return "another sign-in took its place"
    if sign_in.failure is not None:
        return sign_in.failure.detail
    return "it has ended" if sign_in.over.is_set() else "its server does not answer"


def _cookie(exchange: Exchange) -> str:
    from http.cookies import CookieError, SimpleCookie  # few ever open a page

    try:
        found = SimpleCookie(exchange.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
