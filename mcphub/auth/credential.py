"""Owns the tokens of one account while the daemon runs: they are read, renewed by one task at a time, kept, dropped.

It must not open a browser, nor know a connection: who sends asks for what to send, and tells what was refused.

A renewal belongs to the daemon: whoever waits for it may leave, and it goes on. What it brings is on the disk before
anybody uses it. `version` rises with each other set of tokens; a request remembers which one it was sent with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from mcphub.auth import discovery
from mcphub.auth.authorization_code import scopes_to_ask
from mcphub.auth.challenge import Challenge
from mcphub.auth.client_authentication import Assertion
from mcphub.auth.discovery import Discovered
from mcphub.auth.drive import drive
from mcphub.auth.failures import (
    NOBODY_YET,
    NOT_KEPT,
    TRANSIENT,
    Failure,
    FlowFailure,
    Reason,
    RefreshFailure,
    SignInFailed,
    Unmet,
    XaaFailure,
    said,
    without,
)
from mcphub.auth.home import BROWSER, CONFIG, IDP_LOGIN, VAULT, WAIT, Home, Need
from mcphub.auth.methods import METHODS
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import Account, Registration, TokenSet, decoded, encoded, registered_key, registration_key
from mcphub.auth.refresh import after, refresh, renewed
from mcphub.auth.token_answer import Granted, Lost, Malformed, Refused
from mcphub.store.challenges import Challenged
from mcphub.store.vault_state import GenerationConflict, Record, Trouble, VaultUnavailable

#: Kinds of records in the vault.
TOKENS, REGISTRATION = "tokens", "registration"
#: Seconds for which it is remembered that a server wants a sign-in.
REMEMBERED = 900.0
#: Seconds after which a write to the vault that failed is tried again, and a look into it.
WRITE_AGAIN = 10.0
LOOK_AGAIN = 30.0
#: Seconds that the first request of a connection waits for a vault that is being opened: it may need no tokens at all.
FIRST_LOOK = 1.5
#: Seconds that a request waits for new tokens while the old ones are still good.
AHEAD = 2.0
#: Seconds for which nothing is asked of an authorization server again that could not be reached, or could not answer.
LEFT_ALONE = 10.0
#: The same where the organisation's login led to a refusal: it may have been a mistake, or the organisation may change
#: its mind, and nobody would tell.
REFUSED_REST = 60.0
#: Sign-ins of a person after which one server still demands the same scopes, within so many seconds.
MOST_ASKED = 3
ASKED_WITHIN = 600.0

#: Statuses of a token endpoint that is not there any more.
_MOVED = frozenset([404, 405, 410])

#: What another sign-in helps only after its entry was changed.
_OF_THE_ENTRY = frozenset([FlowFailure.CLIENT_REQUIRED, FlowFailure.CLIENT_UNUSABLE])

#: Seconds for which tokens that were refused though they were new are not renewed for another refusal.
REJECTED_REST = 300.0

Renew = Callable[[], Awaitable[Failure | None]]


class _Flight:
    """A renewal that is under way; `failure` counts once it is `over`."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.began = anyio.current_time()
        self.failure: Failure | None = None


class _Verdict(msgspec.Struct, frozen=True):
    """Why the tokens of this version could not be renewed at `at`. `final`: a person must act; else it is tried again
    `rest` seconds later."""

    version: int
    failure: Failure
    at: float
    final: bool
    rest: float = LEFT_ALONE


class _Refusal(msgspec.Struct, frozen=True):
    """The tokens of this version were refused at `at` though they were new, with this challenge."""

    version: int
    challenge: Challenge
    at: float


class Credential:
    """See the module. Made and used on the event loop's thread."""

    def __init__(self, account: Account, home: Home) -> None:
        self.account = account
        self.key = account.key
        self.version = 0
        self.tokens: TokenSet | None = None
        #: Why there are no tokens, where a person can do something about it.
        self.need: Need | None = None
        #: Why they cannot be renewed or kept now, where nobody need do anything: it is tried again.
        self.trouble: Need | None = None
        #: How the last sign-in of a person failed, until the next one.
        self.fell: Failure | None = None
        #: Why the tokens that there were are of no more use: what is open with them has ended too.
        self.ended: Failure | None = None
        #: Scopes that the server named as missing, of which a sign-in asks for all.
        self.missing: tuple[str, ...] = ()
        #: The version of the protocol that the server last spoke, "" = none yet.
        self.spoken = ""
        self._home = home
        self._gen = 0
        self._loaded = False
        self._looked = float("-inf")
        self._flight: _Flight | None = None
        #: The version of tokens that are not on the disk yet.
        self._unkept = 0
        self._verdict: _Verdict | None = None
        self._refusal: _Refusal | None = None
        self._tried: frozenset[str] = frozenset()
        self._challenge = Challenge()
        self._odd = False
        #: When a sign-in was in vain, with what the server still demanded after it; what it demands now; and whether a
        #: sign-in was completed since.
        self._in_vain: list[tuple[float, frozenset[str]]] = []
        self._demanded: frozenset[str] = frozenset()
        self._completed = False
        self._found: tuple[float, Discovered] | None = None

    @property
    def silent(self) -> bool:
        """Tokens are had without a person."""
        return self.account.oauth.mode in METHODS

    @property
    def principal(self) -> str | None:
        """Whose tokens are used, "" = nobody's, or those that the entry alone stands for; None = not known yet."""
        if self.tokens is not None:
            return "" if self.silent else self.tokens.principal
        return "" if self._loaded or self.silent else None

    async def look(self) -> None:
        """Find out whether there are tokens, for a short time."""
        if not self._loaded:
            with anyio.move_on_after(FIRST_LOOK):
                await self._load(self._home.looked)

    @property
    def shown(self) -> Need | None:
        """What people see of it: what is needed, with how they failed at it last; else what it waits for."""
        need = self.need
        if need is None:
            return self.trouble
        if self.fell is None or need.how not in (BROWSER, IDP_LOGIN):
            return need
        how = CONFIG if self.fell.reason in _OF_THE_ENTRY and need.how == BROWSER else need.how
        return Need(self.fell, how, need.scopes)

    @property
    def due(self) -> bool:
        """Something must be done before a request is sent: `ready`."""
        tokens = self.tokens
        if tokens is not None:
            return self._renewable and tokens.due(self._home.now())
        if self.ended is not None:
            return True
        return not self._loaded and anyio.current_time() - self._looked >= LOOK_AGAIN

    @property
    def _renewable(self) -> bool:
        return self.silent or bool(self.tokens is not None and self.tokens.refresh_token)

    def become(self, account: Account) -> None:
        """Its entry is another one, though not for the tokens: a secret, a port."""
        if account != self.account:
            self.account = account
            self.fell = None
            self.retry()

    def retry(self) -> None:
        """What a person was asked for may have been done: try again what was given up."""
        self._verdict = self._found = self._refusal = None

    # --- for requests ------------------------------------------------------------------------------------------------

    async def ready(self, *, first: bool = False) -> Failure | None:
        """Before a request: read what is kept, renew what is due. A failure means that it is not worth sending; tokens
        that are still good are used though they could not be renewed. `first`: of a connection."""
        verdict = self._verdict
        if first and verdict is not None and (verdict.final or verdict.rest > LEFT_ALONE):
            self.retry()
        await self.look()
        tokens = self.tokens
        if tokens is None:
            if not first:
                return self.ended  # what was open with them is not used without
            failure = await self._known_in_vain(self._home.now())
            self.ended = self.ended if failure is not None else None
            return failure
        if not (self._renewable and tokens.due(self._home.now())):
            return None  # where nothing renews them only the server knows whether they are over
        failure = self._held()
        if failure is None:
            version = self.version
            # As long as they are good nobody waits long, and not each for himself.
            began = self._flight.began if self._flight is not None else anyio.current_time()
            deadline = float("inf") if tokens.over(self._home.now()) else began + AHEAD
            with anyio.CancelScope(deadline=deadline):
                failure = await self._fly(lambda: self._renew(version))
        if failure is None or (self.tokens is not None and not self.tokens.over(self._home.now())):
            return None
        return self._useless(failure)

    async def refused(self, version: int, challenge: Challenge, *, remember: bool = True) -> Failure | None:
        """A request was answered 401 though it was sent with the tokens of this version, 0 = without any. None = there
        are other tokens now: it is worth sending once more. `remember`: not even a first request is worth sending."""
        self._challenge = challenge
        if self.version > version and self.tokens is not None:
            return None
        if self.tokens is None and not self.silent:
            if await self._signed():  # another process may have done so
                return None
            if remember:
                self._remember(challenge.scopes if challenge.scope else ())
            return await self._unsigned_here()
        before = self._refusal
        same = before is not None and (before.version, before.challenge) == (self.version, challenge)
        if same and before is not None and 0 <= self._home.now() - before.at < REJECTED_REST:
            return _rejected()  # others were got for that already
        return self._held() or await self._fly(lambda: self._renew(version))

    def unoffered(self) -> None:
        """The server offers no sign-in: a person must change its entry, and the next start looks again."""
        if self.tokens is None and not self.silent:
            self._home.remember(self.key, None)
            text = "it offers no sign-in; set a header that it accepts in `headers`"
            self._want(FlowFailure.DISCOVERY_FAILED, text, CONFIG)

    async def rejected(self, version: int, challenge: Challenge | None = None) -> Failure:
        """A request was refused with tokens that are new: they are of no use, and the way to them is looked up anew."""
        self._found = None
        if self.version != version:
            return self.need.failure if self.need is not None else _rejected()
        self._refusal = _Refusal(version, self._challenge if challenge is None else challenge, self._home.now())
        return self._want_failure(_rejected(), CONFIG if self.silent else BROWSER)

    async def too_little(self, version: int, challenge: Challenge) -> Failure | None:
        """A request was answered 403 since its tokens allow too little. None = there are others now."""
        if self.version > version and self.tokens is not None:
            return None
        before = self.tokens
        known = (*(before.requested if before else ()), *(before.granted if before else ()), *self.missing)
        self.missing = tuple(dict.fromkeys((*known, *challenge.scopes)))
        self._demanded = frozenset(challenge.scopes)
        if self._completed:
            self._completed = False
            self._in_vain.append((self._home.now(), self._demanded))
        if self.silent:
            wanted = frozenset(self.missing)
            if wanted <= self._tried:
                return Failure(FlowFailure.SCOPE_DENIED, f"it wants more than {' '.join(self.missing)}, which it has")
            self._tried = wanted
            return await self._fly(lambda: self._renew(version))
        if before is None:
            return self._unsigned()
        self._home.remember(self.key, Challenged(self._home.now(), self.missing))
        wants = f": it wants {' '.join(challenge.scopes)}" if challenge.scopes else ""
        return self._want(Unmet.INSUFFICIENT_SCOPE, f"its sign-in does not allow this{wants}", BROWSER)

    def accepted(self) -> None:
        """A request with these tokens was not refused."""
        if self.need is None or self.tokens is None or self.missing or self._verdict is not None:
            return
        self.need = self.ended = None
        self._home.changed(self.account)

    # --- for a person's sign-in --------------------------------------------------------------------------------------

    @property
    def home(self) -> Home:
        return self._home

    @property
    def challenge(self) -> Challenge:
        return self._challenge

    async def load(self) -> None:
        """Read what is kept, as it is now."""
        await self._load()

    async def discovered(self, *, again: bool = False) -> Discovered:
        """Who signs people in to it. Raises SignInFailed."""
        now = self._home.now()
        if self._found is not None and not again and 0 <= now - self._found[0] < self._found[1].life:
            return self._found[1]
        try:
            registered = await self._registered()
        except VaultUnavailable:
            registered = frozenset()
        flow = discovery.discover(
            self.account, self._challenge.resource_metadata, registered=registered, version=self.spoken
        )
        found = await drive(flow, self._home.sender(self.account))
        await self._refuse_forbidden(found)
        self._found = (now, found)
        return found

    async def _refuse_forbidden(self, found: Discovered) -> None:
        """Before a person is sent anywhere, and not when the code is to be exchanged. Raises SignInFailed."""
        server = found.server
        for name, url in (
            ("token_endpoint", server.token_endpoint), ("registration_endpoint", server.registration_endpoint)
        ):
            if url and (why := await self._home.forbidden(self.account, url)):
                raise SignInFailed(FlowFailure.UNSAFE_URL, f"{name} of {said(server.issuer)}: {why}")

    def count_sign_in(self) -> None:
        """A person is about to be asked. Raises SignInFailed (`scope_denied`) where that was done too often in vain: a
        server that demands the same after each sign-in would have people sign in for ever. What was given up, or led
        to tokens that were not refused, does not count."""
        now = self._home.now()
        self._in_vain = [one for one in self._in_vain if 0 <= now - one[0] < ASKED_WITHIN]
        if self.missing and sum(what == self._demanded for _, what in self._in_vain) >= MOST_ASKED:
            wants = f"it wanted {' '.join(sorted(self._demanded)) or 'more'}"
            text = f"{wants} after each of {MOST_ASKED} sign-ins within {ASKED_WITHIN / 60:g} minutes"
            raise SignInFailed(FlowFailure.SCOPE_DENIED, text)

    def wanted_scopes(self, found: Discovered) -> tuple[str, ...]:
        """The scopes of the next sign-in."""
        configured = self.account.oauth.scopes
        challenged, refresh = self._challenge.scopes, not self.silent
        asked = scopes_to_ask(configured, challenged, found.resource.scopes, found.server.scopes, refresh=refresh)
        return tuple(dict.fromkeys((*self.missing, *asked))) if self.missing and not configured else asked

    async def take(self, tokens: TokenSet) -> None:
        """These are its tokens from now on: they are kept, then used. Raises VaultUnavailable where they cannot be
        kept; then the old ones stay."""
        tokens = msgspec.structs.replace(tokens, sign_in=self._home.random(8).hex())
        gen = await self._home.safe.put(TOKENS, self.key, encoded(tokens))
        self._completed = True
        self.missing = ()
        self._home.remember(self.key, None)
        self._publish(tokens, gen)

    async def drop(self) -> TokenSet | None:
        """Forget its tokens, here and in the vault; returns what there was. Raises VaultUnavailable."""
        await self._load()
        tokens = self.tokens
        await self._home.safe.delete(TOKENS, self.key)
        self.missing, self.fell, self.trouble = (), None, None
        # It is known to want a sign-in, where it had one.
        wants = None if tokens is None or self.silent else Challenged(self._home.now())
        self._home.remember(self.key, wants)
        self._publish(None, 0)
        return tokens

    async def _signed(self) -> bool:
        await self._load()
        return self.tokens is not None

    # --- what is kept ------------------------------------------------------------------------------------------------

    async def _load(self, get: Callable[[str, str], Awaitable[Record | None]] | None = None) -> None:
        version = self.version
        try:
            state = self._home.safe.state
            if state.trouble not in (None, Trouble.OPENING):
                # Whoever opens it tells: to ask here would be a prompt for every server.
                raise VaultUnavailable(state.detail, state.trouble)
            record = await (get or self._home.safe.get)(TOKENS, self.key)
            if self.version == version:
                self._adopt(record)
        except VaultUnavailable:
            # Not to be able to read is not to have nothing (case C115).
            self._loaded = False
            return
        finally:
            self._looked = anyio.current_time()
        self._loaded = True
        if self.need is not None and self.need.how == VAULT:
            self.need = None
            self._home.changed(self.account)
        told = self._home.challenged(self.key)
        if told is not None and told.scopes and not self.missing and self.tokens is not None:
            self.missing = told.scopes

    def _adopt(self, record: Record | None) -> bool:
        """Use what the vault has; whether it was something else."""
        gen = record.gen if record is not None else 0
        if gen == self._gen:
            return False
        tokens = decoded(record.data, TokenSet) if record is not None else None
        self._publish(tokens, gen)
        return True

    def _publish(self, tokens: TokenSet | None, gen: int, why: Need | None = None) -> None:
        """Use these from now on. `why` there are none any more; the organisation's login may give others."""
        before = self.tokens
        self._gen = gen
        self.tokens = tokens
        self.version += 1
        self._odd = False
        self._verdict = None
        if tokens is not None:
            both = (tokens.access_token, tokens.refresh_token)
            self._home.hide(*(str(one) for one in both if one), owner=self.key)
            self.need = self.ended = self.trouble = self.fell = None
        elif why is not None:
            self.need, self.ended, self.trouble = why, why.failure, None
        elif before is not None and not self.silent:
            self.ended = Failure(Unmet.LOGIN_REQUIRED, "nobody is signed in to it any more")
            self.need = Need(self.ended, BROWSER)
        self._home.changed(self.account)

    async def _keep(self, tokens: TokenSet, gen: int) -> Failure | None:
        """Keep tokens that were got in place of those of this generation, then use them. What cannot be written is used
        all the same, and tried again: the old ones may be dead."""
        try:
            new = await self._home.safe.put(TOKENS, self.key, encoded(tokens), gen)
        except GenerationConflict as conflict:
            # Somebody signed in meanwhile, or out: what is there now counts.
            self._adopt(conflict.current)
            return None if self.tokens is not None else self._unsigned()
        except VaultUnavailable as e:
            self._home.log("warning", f"{self.account.name}: its new tokens cannot be kept yet (store_failed): {e}")
            self._publish(tokens, gen)
            version = self._unkept = self.version
            text = f"its new tokens cannot be kept, and would be lost with the daemon: {e}"
            self._wait_for(Failure(RefreshFailure.STORE_FAILED, text, retry=True))
            self._home.start(lambda: self._write_again(version))
            return None
        self._publish(tokens, new)
        return None

    async def _write_again(self, version: int) -> None:
        """Until these tokens are kept, or there are others; once more when the daemon ends."""
        ending = False
        while not ending:
            ending = await self._home.rest(WRITE_AGAIN)
            tokens = self.tokens
            if self.version != version or tokens is None:
                return
            try:
                gen = await self._home.safe.put(TOKENS, self.key, encoded(tokens), self._gen)
            except GenerationConflict as conflict:
                if self.version == version:
                    self._adopt(conflict.current)
                return
            except VaultUnavailable:
                continue
            if self.version == version:
                self._gen, self._unkept = gen, 0
                self._calm()
            return

    # --- renewal -----------------------------------------------------------------------------------------------------

    async def _fly(self, work: Renew) -> Failure | None:
        """Do it, or wait for the one that is under way."""
        flight = self._flight
        if flight is None:
            flight = self._flight = _Flight()
            mine = flight
            self._home.start(lambda: self._land(mine, work))
        await flight.over.wait()
        return flight.failure

    async def landed(self) -> None:
        """Wait for the renewal that is under way, if there is one."""
        if self._flight is not None:
            await self._flight.over.wait()

    async def _land(self, flight: _Flight, work: Renew) -> None:
        try:
            flight.failure = await work()
            if flight.failure is None:
                self._calm()
        except SignInFailed as e:
            flight.failure = self._clean(e.failure)
        except VaultUnavailable as e:
            text = f"cannot use the vault: {e}"
            if self.tokens is None:
                flight.failure = self._want(Unmet.STORE, text, VAULT)
            else:
                flight.failure = self._give_up(Failure(RefreshFailure.STORE_FAILED, text, retry=True))
        except OSError as e:
            text = f"cannot take turns with other processes: {e.strerror or e}"
            flight.failure = self._give_up(Failure(RefreshFailure.STORE_FAILED, text, retry=True))
        except Exception as e:
            # No more than its name: some hold the text that they are about.
            name = type(e).__name__
            self._home.log("error", f"internal error while renewing the tokens of {self.account.name}: {name}")
            text = f"internal error: {name}"
            flight.failure = self._give_up(Failure(RefreshFailure.TRANSIENT_EXHAUSTED, text, retry=True))
        finally:
            if self._flight is flight:
                self._flight = None
            flight.over.set()

    async def _renew(self, version: int) -> Failure | None:
        """Other tokens than those of this version: those another process has got, or new ones."""
        async with self._home.turn(self.key):
            self._adopt(await self._home.safe.get(TOKENS, self.key))
            if self.version > version and self.tokens is not None and not self.tokens.due(self._home.now()):
                return None
            if self.silent:
                return await self._obtain()
            if self.tokens is None:
                return self._unsigned()
            if not self.tokens.refresh_token:
                return await self._end(self.tokens)
            return await self._refresh()

    async def _obtain(self) -> Failure | None:
        gen = self._gen
        try:
            found = await self.discovered()
            dpop = self.account.oauth.dpop or found.resource.dpop or self._challenge.scheme == "dpop"
            scopes = self.wanted_scopes(found)
            occasion = Occasion(self.account, found, scopes, self._home, self.tokens, dpop)
            tokens = await METHODS[self.account.oauth.mode](occasion)
        except SignInFailed as e:
            self._found = None
            failure = self._clean(e.failure)
            if e.reason is XaaFailure.IDP_LOGIN_REQUIRED:
                return self._ask(failure, IDP_LOGIN)
            if failure.retry or failure.reason in TRANSIENT:
                return self._give_up(failure)
            if isinstance(e.reason, XaaFailure):
                return self._give_up(failure, REFUSED_REST)
            return self._ask(failure, CONFIG)
        return await self._keep(self._lasting(tokens), gen)

    async def _refresh(self) -> Failure | None:
        attempt, resent, looked = 1, False, False
        while True:
            # A person may sign in while this is under way: it is about these tokens alone.
            tokens, gen, version = self.tokens, self._gen, self.version
            assert tokens is not None
            client = await self.client_of(tokens)
            if client is None:
                text = "the registration that its tokens belong to is gone"
                return self._ask(Failure(RefreshFailure.CLIENT_MISSING, text), BROWSER)
            flow = refresh(tokens, client, None, self._assertion(tokens), self._bound(tokens))
            outcome = await drive(flow, self._home.sender(self.account))
            if self.version != version:
                return None if self.tokens is not None else self._unsigned()
            step = after(outcome, attempt, resent=resent, odd_before=self._odd, chance=self._home.chance())
            self._odd = isinstance(outcome, Malformed) or getattr(outcome, "error", "") == "invalid_request"
            if step.do == "keep":
                assert isinstance(outcome, Granted)
                return await self._keep(self._lasting(renewed(tokens, outcome, self._home.now())), gen)
            if step.do == "again":
                if isinstance(outcome, Lost) and outcome.sent:
                    resent = True
                elif (isinstance(outcome, Refused) and outcome.transient) or isinstance(outcome, Lost):
                    attempt += 1
                await anyio.sleep(step.rest)
                if self.version != version:
                    return None if self.tokens is not None else self._unsigned()
                continue
            assert step.failure is not None
            failure = self._clean(step.failure)
            if step.do == "give_up":
                return self._give_up(failure)
            if isinstance(outcome, Lost) and not tokens.over(self._home.now()):
                # Whether it was acted on is not known. What is there is good for a while, and then there is nothing to
                # lose any more by sending the same again.
                return self._give_up(Failure(RefreshFailure.TRANSIENT_EXHAUSTED, failure.detail, retry=True))
            if failure.http_status in _MOVED and not looked:
                looked = True
                if await self._elsewhere(tokens, gen):
                    continue
                if self.version != version:
                    return None if self.tokens is not None else self._unsigned()
            if failure.reason is RefreshFailure.CLIENT_REJECTED:
                self._found = None
                await self._forget_registration(tokens)
            if step.do == "forget":
                if self._adopt(await self._home.safe.get(TOKENS, self.key)) and self.tokens is not None:
                    return None
                return await self._delete(gen, Need(failure, BROWSER, self.missing))
            return self._ask(failure, BROWSER)

    async def _elsewhere(self, tokens: TokenSet, gen: int) -> bool:
        """Whether the same authorization server gives tokens at another place now than when these were got."""
        version = self.version
        try:
            server = (await self.discovered(again=True)).server
        except SignInFailed:
            return False
        if self.version != version or server.issuer != tokens.issuer or server.token_endpoint == tokens.token_endpoint:
            return False
        moved = msgspec.structs.replace(
            tokens, token_endpoint=server.token_endpoint, revocation_endpoint=server.revocation_endpoint
        )
        self._publish(moved, gen)
        return True

    def _lasting(self, tokens: TokenSet) -> TokenSet:
        """Tokens that are new and over are used until they are refused: to renew them for every request would be a
        storm, and their server says so of each (case C107)."""
        return msgspec.structs.replace(tokens, expires_at=0.0) if tokens.over(self._home.now()) else tokens

    async def _end(self, tokens: TokenSet) -> Failure | None:
        """They were refused, and nothing renews them. One refusal may be a mistake: they are only dropped where their
        time is over too."""
        text = "its access token is not taken any more, and there is none to renew it with"
        failure = Failure(RefreshFailure.GRANT_REJECTED, text)
        if tokens.over(self._home.now()):
            return await self._delete(self._gen, Need(failure, BROWSER, self.missing))
        return self._ask(failure, BROWSER)

    async def _delete(self, gen: int, why: Need) -> Failure | None:
        """Compare and delete: what somebody else has put there meanwhile is not ours to take away (case C108)."""
        try:
            gone = await self._home.safe.delete(TOKENS, self.key, gen)
        except VaultUnavailable:
            gone = True  # they are dead all the same; whoever reads them again finds that out
        if not gone and self._adopt(await self._home.safe.get(TOKENS, self.key)) and self.tokens is not None:
            return None
        self._home.remember(self.key, Challenged(self._home.now(), self.missing))
        self._publish(None, 0, why)
        return why.failure

    # --- what came of it ---------------------------------------------------------------------------------------------

    def _held(self) -> Failure | None:
        """Why it is of no use to try again now, None = it may be."""
        verdict = self._verdict
        if verdict is None or verdict.version != self.version:
            return None
        if verdict.final or 0 <= self._home.now() - verdict.at < verdict.rest:
            return verdict.failure
        return None

    def _give_up(self, failure: Failure, rest: float = LEFT_ALONE) -> Failure:
        self._verdict = _Verdict(self.version, failure, self._home.now(), final=False, rest=rest)
        self._wait_for(failure)
        return failure

    def _wait_for(self, failure: Failure) -> None:
        trouble = Need(failure, WAIT)
        if trouble != self.trouble:
            self.trouble = trouble
            self._home.changed(self.account)

    def _calm(self) -> None:
        """What was tried has worked, but for tokens that are still to be kept."""
        if self.trouble is not None and self._unkept != self.version:
            self.trouble = None
            self._home.changed(self.account)

    def _ask(self, failure: Failure, how: str) -> Failure:
        """A person must act, though the tokens stay; they may be good for a while."""
        self._verdict = _Verdict(self.version, failure, self._home.now(), final=True)
        self.trouble = None
        return self._want_failure(failure, how)

    def _useless(self, failure: Failure) -> Failure:
        """The tokens are over and cannot be renewed."""
        verdict = self._verdict
        if verdict is not None and verdict.final and self.need is not None and self.ended != failure:
            self.ended = failure
            self._home.changed(self.account)
        return failure

    def _unsigned(self) -> Failure:
        """Why there are no tokens, where no renewal has failed."""
        if not self._loaded:
            return self._want(Unmet.STORE, f"cannot read its tokens: {self._home.safe.state.detail}", VAULT)
        if self.ended is not None and self.need is not None:
            return self.ended
        return self._want(Unmet.LOGIN_REQUIRED, "nobody has signed in to it yet", BROWSER)

    def _clean(self, failure: Failure) -> Failure:
        """What another server said may hold what it was sent."""
        tokens, oauth = self.tokens, self.account.oauth
        held = (tokens.access_token, tokens.refresh_token) if tokens is not None else ()
        return without(failure, *held, oauth.client_secret)

    # --- the client --------------------------------------------------------------------------------------------------

    async def client_of(self, tokens: TokenSet) -> Registration | None:
        """Who the tokens were given to."""
        oauth = self.account.oauth
        if tokens.client_source == "config":
            if oauth.client_id != tokens.client_id:
                return None
            secret = oauth.client_secret
            return Registration(tokens.client_id, "config", tokens.issuer, secret, tokens.client_method)
        if tokens.client_source == "cimd":
            return Registration(tokens.client_id, "cimd", tokens.issuer, method=tokens.client_method)
        record = await self._home.safe.get(REGISTRATION, registered_key(tokens.issuer, tokens.client_id))
        kept = decoded(record.data, Registration) if record is not None else None
        return kept if kept is not None and kept.usable(self._home.now()) else None

    async def registration(self, issuer: str) -> Registration | None:
        """The registration that is kept for this issuer and this entry's callback. Raises VaultUnavailable."""
        record = await self._home.safe.get(REGISTRATION, self._registration_key(issuer))
        return decoded(record.data, Registration) if record is not None else None

    async def keep_registration(self, registration: Registration) -> None:
        """As the one for this issuer, and as that of the tokens that come of it: those of other servers stay with the
        one they were given to. Raises VaultUnavailable."""
        self._home.hide(*filter(None, [str(registration.secret)]))
        own = registered_key(registration.issuer, registration.client_id)
        await self._home.safe.put(REGISTRATION, own, encoded(registration))
        await self._home.safe.put(REGISTRATION, self._registration_key(registration.issuer), encoded(registration))

    async def bound_issuer(self, client_id: str, issuer: str) -> str:
        """The issuer to which an id of the entry was first given; this one from now on, where it never was. An entry
        that names its issuer needs no such memory. Raises VaultUnavailable."""
        key = registration_key(f"client {client_id}", self.key, 0)
        record = await self._home.safe.get(REGISTRATION, key)
        kept = decoded(record.data, Registration) if record is not None else None
        if kept is not None:
            return kept.issuer
        await self._home.safe.put(REGISTRATION, key, encoded(Registration(client_id, "config", issuer)))
        return issuer

    async def forget_registration(self, issuer: str, client_id: str) -> None:
        """Raises VaultUnavailable."""
        kept = await self.registration(issuer)
        if kept is not None and kept.client_id == client_id:
            await self._home.safe.delete(REGISTRATION, self._registration_key(issuer))
        await self._home.safe.delete(REGISTRATION, registered_key(issuer, client_id))

    async def _forget_registration(self, tokens: TokenSet) -> None:
        if tokens.client_source == "dcr":
            await self.forget_registration(tokens.issuer, tokens.client_id)

    async def _registered(self) -> frozenset[str]:
        found = (decoded(one.data, Registration) for one in (await self._home.safe.list(REGISTRATION)).values())
        return frozenset(one.issuer for one in found if one is not None and one.source == "dcr")

    def _registration_key(self, issuer: str) -> str:
        oauth = self.account.oauth
        return registration_key(issuer, oauth.callback_host, oauth.callback_port)

    def _assertion(self, tokens: TokenSet) -> Assertion | None:
        oauth = self.account.oauth
        if not oauth.private_key or tokens.client_source != "config":
            return None
        from mcphub.auth import assertions

        return assertions.maker(oauth, tokens.issuer, self._home)

    def _bound(self, tokens: TokenSet) -> Callable[[str], tuple[tuple[str, str], ...]] | None:
        if not tokens.dpop_key:
            return None
        from mcphub.auth.dpop import DpopKey

        key = DpopKey.from_json(str(tokens.dpop_key), self._home.random)
        return lambda nonce: key.header("POST", tokens.token_endpoint, self._home.now(), nonce=nonce)

    # --- what a person is told ---------------------------------------------------------------------------------------

    async def _known_in_vain(self, now: float) -> Failure | None:
        """Why a request without tokens would only be refused again, None = it is worth a try."""
        if self.account.oauth.mode == "xaa" and self._loaded:
            return await self._without_login()
        if self.silent:
            return None
        told = self._home.challenged(self.key)
        if told is None or not 0 <= now - told.at < REMEMBERED:
            return None
        return await self._unsigned_here()

    async def _unsigned_here(self) -> Failure:
        """As `_unsigned`; where tokens could not be kept, that is to be mended before anybody signs in."""
        if self._loaded and self.ended is None and (barred := await self._home.safe.barred()) is not None:
            return self._want(Unmet.STORE, f"{NOT_KEPT}: {barred}", VAULT)
        return self._unsigned()

    async def _without_login(self) -> Failure | None:
        from mcphub.auth import idp

        provider = self._home.idp()
        try:
            if provider is None or await idp.may_serve(self._home, provider):
                return None
        except VaultUnavailable:
            return None
        text = f"{NOBODY_YET} at {said(provider.issuer)}"
        return self._ask(Failure(XaaFailure.IDP_LOGIN_REQUIRED, text), IDP_LOGIN)

    async def without_login(self, *, ended: bool) -> None:
        """The organisation's login is gone: say so, where that leaves nothing. `ended`: what is open had tokens."""
        if self.tokens is not None or self.account.oauth.mode != "xaa":
            return
        if (failure := await self._without_login()) is not None and ended:
            self.ended = failure
            self._home.changed(self.account)

    def with_login(self) -> None:
        """Somebody has signed in at the organisation."""
        self.fell = None
        self.retry()
        if self.need is not None and self.need.how == IDP_LOGIN:
            self.need = self.ended = None
            self._home.changed(self.account)

    def person_failed(self, failure: Failure | None) -> None:
        """How a person's sign-in ended that brought no tokens; None = another one has begun."""
        if failure != self.fell:
            self.fell = failure
            self._home.changed(self.account)

    def wanted(self) -> None:
        """It could not be opened for want of a sign-in."""
        if self.need is not None and self.need.failure.reason is Unmet.LOGIN_REQUIRED:
            self._remember(self.need.scopes)

    def _remember(self, scopes: tuple[str, ...]) -> None:
        if not self.silent and self.tokens is None:
            self._home.remember(self.key, Challenged(self._home.now(), scopes))

    def _want(self, reason: Reason, detail: str, how: str) -> Failure:
        return self._want_failure(Failure(reason, detail), how)

    def _want_failure(self, failure: Failure, how: str) -> Failure:
        need = Need(failure, how, self.missing)
        if need != self.need:
            self.need = need
            self._home.changed(self.account)
        return failure


def _rejected() -> Failure:
    return Failure(RefreshFailure.GRANT_REJECTED, "it rejects the tokens that its sign-in gave")


