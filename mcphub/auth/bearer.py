"""Owns the credentials on each request to one server: its tokens, to its own origin only, and what a refusal leads to
(RFC 6750; RFC 9449).

It must not know how tokens are had, nor what is sent. Implements net.Signer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from mcphub.auth import challenge, urls
from mcphub.auth.credential import Credential
from mcphub.auth.failures import NOBODY_YET, NOT_KEPT, TRANSIENT, Failure, FlowFailure, Unmet, XaaFailure
from mcphub.auth.records import TokenSet
from mcphub.errors import TransportError

if TYPE_CHECKING:
    from mcphub.auth.dpop import DpopKey

Header = tuple[bytes, bytes]

#: Seconds after which tokens that were accepted meanwhile do not count as new any more: what others sent with them says
#: nothing of the one request that they were got for.
JUST = 3.0

#: What another sign-in cannot mend: the server is failed, and nobody is asked.
_FINAL = frozenset([XaaFailure.POLICY_DENIED, XaaFailure.ASSERTION_REJECTED, XaaFailure.EXCHANGE_REJECTED])


class BearerSigner:
    """For one connection to the server of this credential."""

    #: One request may want a nonce, then other tokens.
    tries = 3

    def __init__(self, credential: Credential, hide: Callable[..., None] | None = None) -> None:
        self._credential = credential
        self._hide = hide
        self._begun = False
        #: The server answers requests without credentials, so that what it refuses is about one of them alone.
        self._open = False
        #: Nothing was sent, so that nothing is to be looked up about an answer.
        self._vain = False
        self._origin = urls.origin(str(credential.account.url))
        self._known = ""
        self._nonce = ""
        self._key: DpopKey | None = None
        self._header: tuple[int, tuple[Header, ...]] = (-1, ())
        #: The version of tokens that was got for a refusal, when, and whether it was accepted since.
        self._new, self._new_at, self._taken = 0, 0.0, False
        #: Why the last request was refused for good.
        self.failure: Failure | None = None

    @property
    def due(self) -> bool:
        return not self._begun or self._credential.due

    async def ready(self) -> None:
        """Raises TransportError: `needs_auth` where a person must act, else `unreachable` or `refused`."""
        first, self._begun = not self._begun, True
        failure = await self._credential.ready(first=first)
        if failure is not None:
            self.failure, self._vain = failure, True
            raise TransportError(self._told(failure), kind=_kind(failure))

    def version(self) -> int:
        """Of the tokens that are sent now, 0 = none are."""
        return self._credential.version if self._credential.tokens is not None else 0

    def headers_for(self, method: str, url: str) -> Sequence[Header]:
        """What is added to a request to this URL: nothing where it is not the server's own place."""
        tokens = self._credential.tokens
        if tokens is None or not self._at_home(url):
            return ()
        if tokens.token_type != "DPoP":
            version, header = self._header
            if version != self._credential.version:
                header = ((b"Authorization", b"Bearer " + tokens.access_token.encode("ascii")),)
                self._header = (self._credential.version, header)
                self._hidden(tokens)
            return header
        from mcphub.auth.dpop import DpopKey

        if self._header[0] != self._credential.version or self._key is None:
            self._header = (self._credential.version, ())
            self._key = DpopKey.from_json(str(tokens.dpop_key), self._credential.home.random)
            self._hidden(tokens)
        now, token = self._credential.home.now(), str(tokens.access_token)
        proof = self._key.header(method, url, now, access_token=token, nonce=self._nonce)
        bound = [(name.encode("ascii"), value.encode("ascii")) for name, value in proof]
        return ((b"Authorization", b"DPoP " + token.encode("ascii")), *bound)

    def _at_home(self, url: str) -> bool:
        if url != self._known:
            if urls.origin(url) != self._origin:
                return False
            self._known = url
        return True

    def _hidden(self, tokens: TokenSet) -> None:
        if self._hide is not None:
            self._hide(*(str(one) for one in (tokens.access_token, tokens.refresh_token) if one), owner="sign-in")

    def accepted(self) -> None:
        self._taken = True
        if self._credential.tokens is None:
            self._open = True
        self._credential.accepted()

    def noticed(self, nonce: str) -> None:
        """An answer brought the nonce that the next proof must have."""
        self._nonce = nonce

    async def renewed(self, version: int, status: int, lines: Sequence[str]) -> bool:
        """Whether a request that was refused with this version of tokens is worth sending again. Never raises."""
        said = challenge.parse(lines)
        self._vain = False
        if status == 401 and said.error == "use_dpop_nonce" and self._nonce:
            return True
        if status == 403 and said.error != "insufficient_scope":
            self.failure = None
            return False
        failure: Failure | None
        if status == 403:
            failure = await self._credential.too_little(version, said)
        elif version and version == self._new and not (self._taken and anyio.current_time() - self._new_at > JUST):
            self._new = 0  # what is refused later with the same is another matter
            failure = await self._credential.rejected(version, said)
        else:
            failure = await self._credential.refused(version, said, remember=not self._open)
            if failure is None:
                self._new, self._new_at, self._taken = self._credential.version, anyio.current_time(), False
        if failure is not None:  # else that of another request is still to be told
            self.failure = failure
        return failure is None

    def unoffered(self) -> None:
        self._credential.unoffered()

    @property
    def login(self) -> str:
        login, need = f"mcphub login {self._credential.account.name}", self._credential.need
        if need is None or need.failure.reason is not Unmet.STORE:
            return login
        return f"{login}, but first: {need.failure.detail}"

    def told(self, message: str) -> tuple[str, str] | None:
        failure = self.failure
        first = failure is not None and (
            failure.reason is Unmet.LOGIN_REQUIRED or failure.detail.startswith(NOT_KEPT)
        )
        if failure is None or (first and not self._vain):
            return None  # whoever opens the connection looks whether there is a sign-in at all
        return _kind(failure), self._told(failure)

    def _told(self, failure: Failure) -> str:
        return told(self._credential.account.name, failure, silent=self._credential.silent)


def told(name: str, failure: Failure, *, silent: bool = False) -> str:
    """A failure for a person, with the next step. `silent`: nobody signs in to it, but perhaps at the organisation."""
    if failure.reason is Unmet.LOGIN_REQUIRED:
        return f"needs a sign-in: mcphub login {name}"
    if failure.reason is Unmet.STORE:
        unlock = "" if "mcphub vault unlock" in failure.detail else "; then: mcphub vault unlock"
        return f"needs the vault: {failure.detail}{unlock}"
    if failure.reason is XaaFailure.IDP_LOGIN_REQUIRED:
        since = "" if failure.detail.startswith(NOBODY_YET) else f", since {failure.detail} ({failure.reason})"
        return f"needs a sign-in at the organisation{since}: mcphub login {name}"
    if failure.reason in _FINAL:
        return f"cannot get its tokens: {failure}; tried again a minute later, or at once by: mcphub reconnect {name}"
    if silent and _kind(failure) == "needs_auth":
        return f"cannot get its tokens: {failure}; correct `oauth` of its entry"
    if _kind(failure) == "needs_auth":
        return f"needs a new sign-in, since {failure.detail} ({failure.reason}): mcphub login {name}"
    return f"cannot get its tokens: {failure}"


def _kind(failure: Failure) -> str:
    if failure.reason in TRANSIENT or failure.retry:
        return "unreachable"
    if failure.reason in _FINAL or failure.reason is FlowFailure.DISCOVERY_FAILED:
        return "refused"
    return "needs_auth"
