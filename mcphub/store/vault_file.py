"""Owns the vault's file: records under (kind, key), sealed whole with one key, changed under a lock of all processes.

It must not know what records mean, nor any loop: calls block, on the file for a moment, on the source of the key for as
long as that likes. `vault.Vault` is the way for coroutines; a command uses this directly where no daemon runs.

A file that cannot be read is left as it is, whatever is asked: only `unlock(start_over=True)`, which a person asks for,
sets it aside as `FILE.set-aside-N`, and no later one takes that name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

import msgspec

from mcphub.errors import ConfigError

from . import atomicfile, sealed_file
from .key_sources import source_of
from .key_sources.passphrase import Passphrase
from .sealed_file import KEY_BYTES, NONCE_BYTES, Head, Key
from .vault_state import GenerationConflict, Record, Trouble, VaultState, VaultUnavailable

#: The kind of the records that `${secret:NAME}` refers to.
SECRET = "secret"
#: Bytes above which a file is not read.
MAX_BYTES = 64 << 20
_RESTART = "; a change of [vault] key in settings.toml counts once mcphub is started again"

#: Seconds that readers of secrets wait for `open`, where that has not ended, from the first of them on.
PATIENCE = 1.5

T = TypeVar("T")

#: {kind: {key: (gen, data)}}
Records = dict[str, dict[str, tuple[int, bytes]]]


class _Unchanged(Exception):
    """The file is to stay as it is."""


class VaultFile:
    """The file at `path`; see `source_of` for `choice` and `env`. One call at a time, but `secret` from any thread."""

    def __init__(self, path: str, choice: str, env: Mapping[str, str]) -> None:
        self.path = path
        self._source = source_of(choice, env)
        self.source = self._source.label
        self.state = VaultState(self.source, Trouble.OPENING, f"the vault {path} is being opened")
        #: Whether somebody asked for a secret and could not be told, since this was last set to False.
        self.refused = False
        #: Another value where a secret is another.
        self.secrets_mark = 0
        self._key: Key | None = None
        #: The secrets that somebody was told.
        self._last: dict[str, str] = {}
        self._counter = 0
        #: The highest counter that any process wrote, by the mark beside the file, before the file was last read.
        self._seen = 0
        self._warning = ""
        self._opened = threading.Event()
        self._patience: float | None = None
        self._sought: Callable[[], object] | None = None

    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def barred(self) -> VaultUnavailable | None:
        """Why there is no vault and none could be made, as far as that is seen without asking a person anything; None
        = there is one, or it could."""
        if self.exists():
            return None
        try:
            self._check()
            self._source.missing()
        except VaultUnavailable as error:
            text = f"cannot make the vault {self.path}: {error}{_RESTART}"
            return VaultUnavailable(text, error.trouble)
        return None

    def open(self) -> None:
        """Get the key, where there is a file, and read it. Raises VaultUnavailable, as all below; `state` says it too.

        Where there is none, nothing is asked for: it and its key are made by the first that is kept.
        """
        try:
            with self._told():
                self._records(self._current())
        finally:
            self._opened.set()

    def when_sought(self, call: Callable[[], object]) -> None:
        """Have this called, in any thread, once somebody asks for a secret before the vault was opened."""
        self._sought = call
        if self._patience is not None:
            call()

    def retry(self) -> None:
        """As `open`, where the source of the key would ask no person for anything, else nothing."""
        if self._source.quiet():
            self.open()

    def ready(self) -> None:
        """Have a key, if need be a new one."""
        with self._told():
            if (data := self._current()) is not None:
                self._records(data)
            else:
                self._change(lambda records, gen: None)

    def unlock(self, passphrase: str | None = None, *, start_over: bool = False) -> None:
        """Ask the source again; see `Vault.unlock`."""
        before, self._key = self._key, None
        try:
            with self._told():
                if passphrase is not None:
                    self._offer(passphrase)
                if start_over:
                    self._start_over(passphrase)
                elif (data := self._current()) is not None or passphrase is None:
                    self._records(data)
                else:
                    self._change(lambda records, gen: None)
        except VaultUnavailable:
            if before is not None and passphrase is not None:
                # A wrong passphrase does not lock what is open.
                with contextlib.suppress(VaultUnavailable):
                    self.open()
            raise
        finally:
            self._opened.set()

    def rotate(self, passphrase: str | None = None) -> None:
        """Seal everything with a new key: one made by chance, or from the new passphrase."""
        with self._told():
            if isinstance(self._source, Passphrase):
                if passphrase is None:
                    raise VaultUnavailable("cannot rotate the vault's key: give a new passphrase", Trouble.PASSPHRASE)
            elif passphrase is not None:
                self._no_passphrase()

            def renewed(data: bytes | None) -> bytes:
                self._check()
                self._seen = self._remembered()
                records, old = self._records(data), self._key
                if old is not None:
                    self._source.promote(old)  # the next one's place may hold it yet
                new = self._from_passphrase(passphrase) if passphrase is not None else _new_key()
                self._source.keep_next(new)
                self._key = new
                return self._sealed(records)

            self._update(renewed)
            self._promote()

    def get(self, kind: str, key: str) -> Record | None:
        """What is there, None = nothing."""
        with self._told():
            return _record(self._records(self._current()), kind, key)

    def list(self, kind: str) -> dict[str, Record]:
        """All of one kind, by key."""
        with self._told():
            found = self._records(self._current()).get(kind, {})
            return {key: Record(data, gen) for key, (gen, data) in found.items()}

    def put(self, kind: str, key: str, data: bytes, expected_gen: int | None = None) -> int:
        """Keep it and return its gen. Raises GenerationConflict where `expected_gen` (0 = nothing) is not there."""

        def edit(records: Records, gen: int) -> int:
            present = _record(records, kind, key)
            if expected_gen is not None and expected_gen != (present.gen if present else 0):
                raise GenerationConflict(f"cannot keep {kind} {key[:80]!a}: it was changed meanwhile", present)
            records.setdefault(kind, {})[key] = (gen, data)
            return gen

        with self._told():
            return self._change(edit)

    def delete(self, kind: str, key: str, expected_gen: int | None = None) -> bool:
        """Take it away, where it is there and `expected_gen` is its; whether that was so."""

        def edit(records: Records, gen: int) -> bool:
            present = _record(records, kind, key)
            if present is None or expected_gen not in (None, present.gen):
                raise _Unchanged
            del records[kind][key]
            return True

        with self._told():
            try:
                return self._change(edit)
            except _Unchanged:
                return False

    def secret(self, name: str) -> str | None:
        """The text of a secret, None = there is none of this name. Never asks the source of the key, so it blocks for
        the file alone, and in the first moments of a daemon until its vault was opened. While the file cannot be read,
        a secret that was told is still what it was: no server stops for that."""
        self._wait()
        try:
            found = self._secret(name)
        except VaultUnavailable:
            if name in self._last:
                return self._last[name]
            self.refused = True
            raise
        if found is None:
            self._last.pop(name, None)
        else:
            self._last[name] = found
        return found

    def _wait(self) -> None:
        """A moment, for the first opening; never in the thread of the event loop, which has others to serve."""
        if self._opened.is_set():
            return
        if self._patience is None:
            self._patience = time.monotonic() + PATIENCE
            if self._sought is not None:
                self._sought()
        rest = self._patience - time.monotonic()
        if rest > 0 and threading.current_thread() is not threading.main_thread():
            self._opened.wait(rest)

    def _secret(self, name: str) -> str | None:
        data, key = self._read(), self._key
        if data is None:
            return None
        if key is None or _head(data, self.path).mark != key.mark:
            raise VaultUnavailable(
                self.state.detail or f"the vault {self.path} has another key now; then: mcphub vault unlock",
                self.state.trouble or Trouble.WRONG_KEY,
            )
        found = _record(_unsealed(data, key, self.path), SECRET, name)
        return found.data.decode("utf-8", "replace") if found is not None else None

    # --- the file ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """How it went is the state."""
        try:
            yield
        except VaultUnavailable as error:
            self.state = VaultState(self.source, error.trouble, str(error))
            raise
        except (GenerationConflict, _Unchanged):
            self.state = VaultState(self.source, warning=self._warning)
            raise
        self.state = VaultState(self.source, warning=self._warning)

    def _current(self) -> bytes | None:
        """What the file holds. Not for `secret`, which is asked in other threads."""
        # First: what another process writes in between is newer than what is read.
        self._seen = self._remembered()
        return self._read()

    def _read(self) -> bytes | None:
        self._check()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._io("read", error) from None
        with open(descriptor, "rb") as file:
            try:
                return file.read(MAX_BYTES + 1)
            except OSError as error:
                raise self._io("read", error) from None

    def _check(self) -> None:
        """Refuse a file or a directory that is not ours alone: what others may write is not what we sealed."""
        directory = os.path.dirname(self.path)
        for path, good, mode in ((directory, stat.S_ISDIR, 0o700), (self.path, stat.S_ISREG, 0o600)):
            try:
                # A link at the end is refused; the directory may be one, it is what it leads to that counts.
                found = os.stat(path) if path == directory else os.lstat(path)
            except FileNotFoundError:
                return
            except OSError as error:
                raise self._io("read", error) from None
            if not good(found.st_mode):
                what = "a directory" if path == directory else "a regular file, or a link to one"
                cause = f"{path} is not {what.partition(',')[0]}; move it away"
            elif found.st_uid != os.geteuid():
                cause = f"{path} belongs to uid {found.st_uid} and you are {os.geteuid()}; give it to yourself"
            elif found.st_mode & 0o077:
                cause = f"others may use {path} (mode {found.st_mode & 0o777:o}); then: chmod {mode:o} {path}"
            else:
                continue
            raise VaultUnavailable(f"cannot use the vault: {cause}", Trouble.PERMISSIONS)

    def _records(self, data: bytes | None) -> Records:
        """What is sealed in the file, and the key of it in hand. What is given is the caller's to change."""
        if data is None:
            self._mark({})
            return {}
        head = _head(data, self.path)
        if self._key is None or self._key.mark != head.mark:
            self._key = self._found_key(head)
        records = _unsealed(data, self._key, self.path)
        self._count(head.counter)
        self._mark(records)
        return records

    def _found_key(self, head: Head) -> Key:
        """The key that the file was sealed with, from its source."""
        keys = self._source.keys(head)
        for key in keys:
            if key.mark == head.mark:
                if isinstance(self._source, Passphrase):
                    self._source.promote(key)
                return key
        if not keys:
            raise VaultUnavailable(
                f"cannot open the vault {self.path}: its key is not there ({self.source}); put it back, or set the "
                "vault aside and begin with an empty one: mcphub vault unlock --start-over",
                Trouble.NO_KEY,
            )
        raise VaultUnavailable(
            f"cannot open the vault {self.path}: {self.source} is not the one that it was sealed with; use the right "
            "one, or set the vault aside and begin with an empty one: mcphub vault unlock --start-over",
            Trouble.WRONG_KEY,
        )

    def _first_key(self) -> Key:
        """The key for a file that is not there yet. To be called under the lock: two that are made make one useless."""
        if keys := self._source.keys(None):
            if isinstance(self._source, Passphrase):
                self._source.promote(keys[0])
            return keys[0]
        if not self._source.makes:
            raise VaultUnavailable(f"cannot make the vault {self.path}: {self.source} is not there", Trouble.NO_KEY)
        key = _new_key()
        self._source.promote(key)
        return key

    def _change(self, edit: Callable[[Records, int], T]) -> T:
        """Change the records as `edit` says, which gets them and the gen of this change."""
        made: list[T] = []

        def changed(data: bytes | None) -> bytes:
            self._check()
            self._seen = self._remembered()
            records = self._records(data)
            if data is None:
                self._key = self._first_key()
            made.append(edit(records, self._counter + 1))
            return self._sealed(records)

        self._update(changed)
        return made[0]

    def _sealed(self, records: Records) -> bytes:
        assert self._key is not None
        self._mark(records)
        plain = msgspec.msgpack.encode({kind: found for kind, found in records.items() if found})
        return sealed_file.seal(plain, self._key, self._counter + 1, secrets.token_bytes(NONCE_BYTES))

    def _update(self, change: Callable[[bytes | None], bytes]) -> None:
        self._check()  # before anything is read there; `change` looks again, under the lock
        try:
            atomicfile.update(self.path, change, mode=0o600, private=True)
        except ConfigError as error:
            raise VaultUnavailable(str(error), Trouble.IO) from None
        self._counter += 1
        self._remember(self._counter)

    def _promote(self) -> None:
        """Make the next key the current one, while no other process can seal the file with yet another."""

        def promoted(data: bytes | None) -> bytes:
            if data is not None and self._key is not None and _head(data, self.path).mark == self._key.mark:
                self._source.promote(self._key)
            raise _Unchanged

        with contextlib.suppress(_Unchanged):
            self._update(promoted)

    def _start_over(self, passphrase: str | None) -> None:
        """Set a file aside that cannot be opened, and seal an empty one in its place."""
        if not self.exists():
            if (barred := self.barred()) is not None:
                raise barred
            message = f"cannot start over: there is no vault {self.path} yet; the first secret or sign-in makes it"
            raise VaultUnavailable(message, Trouble.IO)
        try:
            self._records(self._current())
        except VaultUnavailable as error:
            if error.trouble not in (Trouble.NO_KEY, Trouble.WRONG_KEY, Trouble.DAMAGED, Trouble.NEWER):
                raise
        else:
            message = f"cannot start over: the vault {self.path} can be opened; nothing was changed"
            raise VaultUnavailable(message, Trouble.IO)

        def emptied(data: bytes | None) -> bytes:
            self._check()
            if passphrase is not None:
                self._offer(passphrase)  # the first time it was used to see that the file cannot be opened
            self._key = self._first_key()
            self._counter = max(self._counter, self._remembered())
            if data is not None:
                _set_aside(self.path)
            return self._sealed({})

        self._update(emptied)

    # --- passphrases, counters ---------------------------------------------------------------------------------------

    def _offer(self, passphrase: str) -> None:
        if not isinstance(self._source, Passphrase):
            self._no_passphrase()
        self._source.offer(passphrase)

    def _from_passphrase(self, passphrase: str) -> Key:
        self._offer(passphrase)
        (key,) = self._source.keys(None)
        return key

    def _no_passphrase(self) -> NoReturn:
        message = f"cannot use a passphrase: the vault's key is {self.source}; see [vault] key in settings.toml"
        raise VaultUnavailable(message, Trouble.NO_STORE)

    def _mark(self, records: Records) -> None:
        self.secrets_mark = hash(frozenset((key, gen) for key, (gen, _) in records.get(SECRET, {}).items()))

    def _count(self, counter: int) -> None:
        """Note the counter of the file: one that is lower than one that was written means an older file came back."""
        seen = max(self._counter, self._seen)
        if counter < seen:
            self._warning = (
                f"the vault {self.path} is an older one than was written last ({counter} after {seen}): if you did not "
                "restore it, somebody did; sign-ins may have to be done again"
            )
        self._counter = max(seen, counter)

    @property
    def _counter_file(self) -> str:
        return f"{self.path}.counter"

    def _remembered(self) -> int:
        try:
            with open(self._counter_file, "rb") as file:
                return int(file.read(20))
        except (OSError, ValueError):
            return 0  # it is a help, not a guard: whoever can replace the vault can replace this

    def _remember(self, counter: int) -> None:
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._counter_file, flags, 0o600)
            try:
                os.pwrite(descriptor, b"%020d" % counter, 0)
            finally:
                os.close(descriptor)

    def _io(self, verb: str, error: OSError) -> VaultUnavailable:
        if error.errno == errno.ELOOP:
            return VaultUnavailable(f"cannot use the vault: {self.path} is a link; move it away", Trouble.PERMISSIONS)
        return VaultUnavailable(f"cannot {verb} the vault {self.path}: {error.strerror or error}", Trouble.IO)


def _record(records: Records, kind: str, key: str) -> Record | None:
    found = records.get(kind, {}).get(key)
    return Record(found[1], found[0]) if found is not None else None


def _unsealed(data: bytes, key: Key, path: str) -> Records:
    try:
        return msgspec.msgpack.decode(sealed_file.unseal(data, key), type=Records)
    except (sealed_file.Unreadable, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None


def _new_key() -> Key:
    return Key(secrets.token_bytes(KEY_BYTES))


def _head(data: bytes, path: str) -> Head:
    try:
        if len(data) > MAX_BYTES:
            raise sealed_file.Unreadable(f"it is larger than {MAX_BYTES >> 20} MiB")
        return sealed_file.read_head(data)
    except sealed_file.Newer as error:
        message = f"cannot open the vault {path}: {error}; use the newer mcphub that wrote it"
        raise VaultUnavailable(message, Trouble.NEWER) from None
    except sealed_file.Unreadable as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: str, cause: str) -> VaultUnavailable:
    return VaultUnavailable(
        f"cannot open the vault {path}: it is damaged ({cause}), and left as it is; put a copy of it back, or set it "
        "aside and begin with an empty one: mcphub vault unlock --start-over",
        Trouble.DAMAGED,
    )


def _set_aside(path: str) -> None:
    """Give the file a second name that nothing else has; the first is about to be another file's."""
    number = 1
    while True:
        try:
            os.link(path, f"{path}.set-aside-{number}", follow_symlinks=False)
            return
        except FileExistsError:
            number += 1
