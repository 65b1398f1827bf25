"""Owns environments as values: the hub's environment file, what a child process gets, what a project file may not set.

It must not read a file or the process environment, nor start anything.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from mcphub.spec import StdioSpec

#: What every child gets from the hub's environment (case C026); the rest is opened by `inheritEnv` or named in `env`.
BASE_NAMES = frozenset(
    [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY",
        "ALL_PROXY", "FTP_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
        "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "ssl_cert_file", "ssl_cert_dir", "requests_ca_bundle",
        "curl_ca_bundle", "node_extra_ca_certs", "aws_ca_bundle", "git_ssl_cainfo",
    ]
)
BASE_PREFIXES = ("LC_", "XDG_")

#: Addressed to the daemon itself by its service manager: a child that inherited them would answer in its name.
_SERVICE_NAMES = frozenset(
    [
        "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID",
        "MAINPID", "INVOCATION_ID", "JOURNAL_STREAM", "CREDENTIALS_DIRECTORY",
    ]
)

# Variables that decide which code a harmless looking command runs, or whom it trusts (case C044). A trailing * makes a
# family. Compared in upper case, since proxy and npm variables work in both.
_LOADER = (
    "LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV",
    "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR", "XDG_*", "NODE_OPTIONS",
    "NODE_PATH", "NODE_REPL_*", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "NPM_CONFIG_*",
    "BUN_*", "DENO_*", "PYTHON*", "PIP_*", "UV_*", "VIRTUAL_ENV", "CONDA_*", "PERL5*", "PERLLIB", "RUBYOPT",
    "RUBYLIB", "GEM_*", "BUNDLE_*", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHPRC", "PHP_INI_SCAN_DIR",
    "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_HOME", "CLASSPATH", "MAVEN_OPTS",
    "GRADLE_OPTS", "DOTNET_*", "CORECLR_*", "COR_*", "COMPLUS_*", "GOFLAGS", "GOPROXY", "RUSTC_WRAPPER",
    "CARGO_*", "GIT_SSH*", "GIT_*SSH*", "GIT_EXEC_PATH", "GIT_CONFIG*", "GIT_ASKPASS", "GIT_PAGER",
    "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_TEMPLATE_DIR",
    "GIT_SSL_*", "SSH_ASKPASS*", "EDITOR", "VISUAL", "PAGER", "BROWSER", "OPENSSL_*", "SSL_CERT_*",
    "SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CURL_HOME", "AWS_CA_BUNDLE", "HTTP_PROXY",
    "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY", "DOCKER_HOST", "DOCKER_CONFIG", "KUBECONFIG",
)
# Members of those families that only change how output looks.
_HARMLESS = frozenset(
    [
        "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
    ]
)


@functools.cache
def _loader_pattern() -> re.Pattern[str]:
    """Compiled where a project sets a variable: it takes as long as five modules, and the daemon starts without."""
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in _LOADER), re.DOTALL)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)", re.DOTALL)
_SINGLE = re.compile(r"'(?P<text>[^']*)'[ \t]*(?:#.*)?")
_DOUBLE = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def parse_environment(data: bytes, path: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables of one file, and what is wrong with it. A bad line is skipped and named, the others count.

    One `NAME=VALUE` a line, `export ` before it allowed; blank lines and lines that begin with `#` are skipped. A value
    in single quotes is taken as it stands, in double quotes `\\n \\r \\t \\" \\\\ \\$` are escapes; without quotes it
    is the rest of the line without the blanks around it, a `#` included. Nothing is expanded. A name given twice: the
    last wins. Problems name file and line, never a value.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return {}, (f"cannot use {path}: not UTF-8 at byte 0 (this looks like UTF-16; save it as UTF-8)",)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return {}, (f"cannot use {path}: not UTF-8 at byte {error.start}",)
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = raw.strip(" \t")
        if not line or line.startswith("#"):
            continue
        value = None
        found = _LINE.fullmatch(line)
        cause = "expected NAME=VALUE"
        if found is not None:
            value, cause = _value(found["value"])
        if value is None or found is None:
            problems.append(f"cannot use {path}:{number}: {cause}; the line is skipped")
            continue
        name = found["name"]
        if name in values:
            problems.append(f"{path}:{number}: {name} is set twice; this later line wins")
        values[name] = value
    return values, tuple(problems)


def _value(text: str) -> tuple[str | None, str]:
    """The value that stands behind `=`, or None and why there is none."""
    if "\0" in text:
        return None, "a value cannot hold a NUL character"
    if text.startswith("'"):
        found = _SINGLE.fullmatch(text)
        return (found["text"], "") if found else (None, "expected one closing single quote at the end")
    if text.startswith('"'):
        found = _DOUBLE.fullmatch(text)
        if found is None:
            return None, "expected one closing double quote at the end"
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found["text"]), ""
    return text, ""


def valid_name(name: str) -> bool:
    """`name` can be a variable of the environment: not empty, no `=`, no NUL."""
    return name != "" and "=" not in name and "\0" not in name


def hub_environment(process: Mapping[str, str], file: Mapping[str, str]) -> dict[str, str]:
    """The environment that references are expanded from. The file wins: it is what a person wrote for the hub, while
    the process environment is whatever happened to start the daemon."""
    return {**process, **file}


def listed(variables: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Those of `variables` that `names` has, by name in the order of the alphabet."""
    return {name: variables[name] for name in sorted(set(names)) if name in variables}


def base_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The part of `env` that every child gets."""
    return {name: value for name, value in env.items() if name in BASE_NAMES or name.startswith(BASE_PREFIXES)}


def daemon_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a host's environment is reduced to when it starts a daemon: the base set, and the way to the key ring."""
    way = {name: env[name] for name in ("DBUS_SESSION_BUS_ADDRESS",) if name in env}
    return base_environment(env) | way


def own_environment(env: Mapping[str, str]) -> dict[str, str]:
    """All of `env` that is for the daemon as a program, without what is for it as a service."""
    return {name: value for name, value in env.items() if name not in _SERVICE_NAMES}


def child_environment(hub_env: Mapping[str, str], spec: StdioSpec) -> dict[str, str]:
    """The whole environment of the child that `spec` describes: base set, what `inherit_env` opens, then its own `env`.

    The values are secrets; the result must not be logged.
    """
    if spec.inherit_env is True:
        env = own_environment(hub_env)
    else:
        env = base_environment(hub_env)
        if spec.inherit_env:
            env |= {name: hub_env[name] for name in spec.inherit_env if name in hub_env}
    # A plain str: Secret is for what may be shown, this goes to the system call.
    return env | {name: str(value) for name, value in spec.env.items()}


def blocked_in_project(names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` that a project file may not set: they choose the code that runs, or whom it trusts."""
    return tuple(
        name for name in names if name.upper() not in _HARMLESS and _loader_pattern().fullmatch(name.upper())
    )
