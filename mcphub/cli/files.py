"""Owns reading a file that a person named, to say what is wrong with it.

It must not know what the file says.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcphub.config.layer import Layer
    from mcphub.status import FindingsReport


def read_whole(path: str) -> bytes:
    """The bytes of the file. Raises ConfigError, also where nothing is there."""
    from mcphub.config.readfile import Reader
    from mcphub.errors import ConfigError

    data = Reader().read(os.path.abspath(path))
    if data is None:
        raise ConfigError(f"cannot read {path}: No such file")
    return data


def layer_of(path: str, data: bytes, kind: str) -> Layer:
    """A file of servers or rules as the layer that it would be. Raises ConfigError for a property list that is none."""
    from mcphub.errors import ConfigError
    from mcphub.questions import findings

    if kind != findings.PREFERENCES:
        return findings.server_layer(data, path, kind)
    from mcphub.config.jsonc import Document, Lines
    from mcphub.config.managed_document import managed_layer
    from mcphub.config.sources.preferences import plain

    try:
        document = Document(plain(data), Lines())
    except ValueError as error:
        raise ConfigError(f"cannot use {path}: {error}") from None
    return managed_layer(document, path=path, directory=os.path.dirname(path))


def findings_of(path: str, workspace: str, kind: str = "") -> FindingsReport:
    """What is wrong with the file at `path`, read as what it is, or as `kind`. One that stands where administrators'
    files are must be trustworthy too. Raises ConfigError where it cannot be read at all."""
    from dataclasses import replace

    from mcphub.cli.from_files import Files
    from mcphub.config.entries.context import Context, EnvFile, assumed
    from mcphub.config.environment import parse_environment
    from mcphub.config.readfile import Reader
    from mcphub.config.resolve import wanted_env_files
    from mcphub.config.trusted_file import read_trusted
    from mcphub.errors import ConfigError
    from mcphub.questions import findings
    from mcphub.status import FindingsReport

    data = read_whole(path)
    path = os.path.abspath(path)
    kind = kind or findings.file_kind(path, data)
    files = Files(workspace)
    context = Context(files.loaded.environment, files.here.places.environment, secrets=assumed)
    if kind in (findings.SETTINGS, findings.ENVIRONMENT):
        report = findings.findings(data, path, kind, context)
    elif kind == findings.PLUGIN:
        from mcphub.config.sources.plugin import plugin_layers, plugin_root

        layers = plugin_layers(Reader(), plugin_root(path), files.here.places.plugin_data)
        parts = [findings.layer_findings(one, kind, context) for one in layers]
        report = FindingsReport(
            path=path,
            kind=kind,
            problems=list(dict.fromkeys(text for part in parts for text in part["problems"])),
            warnings=list(dict.fromkeys(text for part in parts for text in part["warnings"])),
        )
    else:
        layer = layer_of(path, data, kind)
        env_files = {}
        for wanted in wanted_env_files([layer], context):
            try:
                env_files[wanted] = EnvFile(*parse_environment(read_whole(wanted), wanted))
            except ConfigError as error:
                env_files[wanted] = EnvFile(error=str(error))
        report = findings.layer_findings(layer, kind, replace(context, env_files=env_files))
    system = files.here.places.system
    governing = [system.directory, *filter(None, [system.preferences])]
    if os.path.realpath(path).startswith(tuple(one.rstrip("/") + "/" for one in governing)):
        try:
            read_trusted(path, system.trust, Reader())
        except ConfigError as error:
            report["problems"].insert(0, str(error))
    return report
