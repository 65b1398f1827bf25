"""Owns what the entries of all files are read against: variables, files that were read for them, default times.

It must not know entries, nor where any of it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def assumed(name: str) -> str:
    """What a secret is taken to be by whoever looks at entries without running them: the vault is the daemon's."""
    return "secret"


@dataclass(frozen=True, slots=True)
class EnvFile:
    """What the caller read from the file that an entry's `envFile` names. `error` is why it could not be read at
    all."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What an entry is read against. `environment_file` is only named in messages; timeouts are seconds.

    `env_files` holds what `env_file_path` asked for, by absolute path. `switched_off` are the names that a person
    switched off, each with the directory that it is off for ("" = everywhere), in `workspace`.
    """

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment_file: str = "the hub's environment file"
    env_files: Mapping[str, EnvFile] = field(default_factory=dict, repr=False)
    startup_timeout: float = 30.0
    call_timeout: float = 600.0
    #: The secret of a name, None = there is none of that name; without a lookup no secret can be had at all.
    secrets: Callable[[str], str | None] | None = field(default=None, repr=False)
    #: Asked after `secrets` said None: why none can be had at all, "" = they can.
    no_secrets: Callable[[], str] | None = None
    switched_off: Mapping[str, str] = field(default_factory=dict)
    #: Why nobody knows what a person switched off, "" = `switched_off` says it. Then every entry counts as off.
    switches_lost: str = ""
    workspace: str = ""
    #: The agent that it is read for, where that has instances of its own.
    agent: str = ""
