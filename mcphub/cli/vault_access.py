"""Owns the way of commands to the vault: through the daemon where one runs, which is its owner, else the file itself.

It must not print, nor know verbs. Both ways answer with the same reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from mcphub.cli.change import Here
from mcphub.cli.hidden_input import ask
from mcphub.client import ControlClient
from mcphub.config.expand import secret_name_fault
from mcphub.errors import ConfigError, ControlError
from mcphub.status import SecretReport, SecretsReport, SecretStatus, VaultReport
from mcphub.store.vault_file import SECRET, VaultFile
from mcphub.store.vault_state import Trouble, VaultState, VaultUnavailable

T = TypeVar("T")


class VaultAccess:
    """For one command. Every method raises ConfigError, or ControlError as the daemon does."""

    def __init__(self) -> None:
        self._here = Here.now()
        self._loaded = self._here.load()
        self._file = VaultFile(self._here.places.vault, self._loaded.settings.vault.key, os.environ)

    @property
    def needs_passphrase(self) -> bool:
        """Whether the key is made from a passphrase, by the settings as they are now."""
        return self._loaded.settings.vault.key == "passphrase"

    def status(self) -> VaultReport:
        def opened() -> VaultReport:
            try:
                self._file.open()
            except VaultUnavailable:
                pass
            return self._report()

        return self._first(lambda client: client.vault(), opened)

    def unlock(self, passphrase: str | None, start_over: bool) -> VaultReport:
        def unlocked() -> VaultReport:
            try:
                self._file.unlock(passphrase, start_over=start_over)
            except VaultUnavailable as error:
                if passphrase is not None or start_over:
                    raise ConfigError(str(error)) from None
            return self._report()

        return self._first(lambda client: client.unlock_vault(passphrase, start_over=start_over), unlocked)

    def rotate(self, passphrase: str | None) -> VaultReport:
        def rotated() -> VaultReport:
            self._do(lambda: self._file.rotate(passphrase))
            return self._report()

        return self._first(lambda client: client.rotate_vault(passphrase), rotated)

    def secrets(self) -> SecretsReport:
        def listed() -> SecretsReport:
            names = sorted(self._do(lambda: self._file.list(SECRET)))
            return SecretsReport(
                secrets=[SecretStatus(name=name, servers=self._referring(name)) for name in names], live=False
            )

        return self._first(lambda client: client.secrets(), listed)

    def refuse_locked(self, name: str) -> None:
        """Raise ConfigError where nothing could be kept now."""
        report = self.status()
        if report["state"] == "locked" and (report["live"] or report["reason"] != Trouble.PASSPHRASE):
            raise ConfigError(f"cannot keep the secret {name}: {report['detail']}")

    def set(self, name: str, value: str) -> SecretReport:
        if fault := secret_name_fault(name):
            raise ConfigError(f"cannot keep the secret {name[:80]!a}: {fault}")

        def kept() -> SecretReport:
            self._do(lambda: self._file.put(SECRET, name, value.encode("utf-8")))
            return SecretReport(name=name, action="set", servers=self._referring(name), live=False)

        return self._first(lambda client: client.set_secret(name, value), kept)

    def remove(self, name: str) -> SecretReport:
        def removed() -> SecretReport:
            if not self._do(lambda: self._file.delete(SECRET, name)):
                raise ConfigError(f"cannot remove the secret {name[:80]!a}: there is none of this name")
            return SecretReport(name=name, action="removed", servers=self._referring(name), live=False)

        return self._first(lambda client: client.remove_secret(name), removed)

    def _first(self, asked: Callable[[ControlClient], T], itself: Callable[[], T]) -> T:
        try:
            return asked(self._here.client)
        except ControlError as error:
            if error.status:
                raise
        return itself()

    def _do(self, use: Callable[[], T]) -> T:
        """Use the file; where it takes a passphrase that nobody gave, ask for it."""
        try:
            try:
                return use()
            except VaultUnavailable as error:
                if error.trouble is not Trouble.PASSPHRASE:
                    raise
            exists = self._file.exists()
            self._file.unlock(ask("the vault's passphrase" if exists else "a new passphrase", twice=not exists))
            return use()
        except VaultUnavailable as error:
            raise ConfigError(str(error)) from None

    def _report(self) -> VaultReport:
        state, exists = self._file.state, self._file.exists()
        if state.usable and (barred := self._file.barred()) is not None:
            state = VaultState(state.source, barred.trouble, str(barred))
        return VaultReport(
            path=self._file.path,
            exists=exists,
            source=state.source,
            state="locked" if not state.usable else "open" if exists else "new",
            reason=str(state.trouble or ""),
            detail=state.detail,
            warning=state.warning,
            live=False,
        )

    def _referring(self, name: str) -> list[str]:
        found = self._loaded.resolved.servers.values()
        return sorted(one.name for one in found if one.refers_to_secret(name))
