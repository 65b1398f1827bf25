"""Owns what is written into the files of the service: the shipped texts with this program's own path and places.

It must not read or write anything. Each file ends in a digest of itself, so that it can be told later whether a person
has changed it.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

#: Before the digest, in a comment on the last line of a file.
MARK = "written by mcphub service install, sha256:"
_MARKED = re.compile(rf"(?s)(?P<body>.*?)(?:# |<!-- ){re.escape(MARK)}(?P<digest>[0-9a-f]{{64}})(?: -->)?\n?")
_EXEC_START = re.compile(r"(?m)^ExecStart=.*$")
_ARGUMENTS = re.compile(r"(?s)(<key>ProgramArguments</key>\n)  <array>.*?</array>\n")
#: What a unit may hold literally in a word.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+")


def unit(text: str, argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """A systemd unit that runs `argv` (the first an absolute path) with these variables more; a unit without ExecStart
    stays as it is."""
    lines = ["ExecStart=" + " ".join(_word(part, first=not n) for n, part in enumerate(argv))]
    lines += [f"Environment={_quoted(f'{name}={value}')}" for name, value in sorted(environment.items())]
    return _signed(_EXEC_START.sub(lambda _: "\n".join(lines), text), "# ", "")


def plist(text: str, argv: Sequence[str], environment: Mapping[str, str], log: str) -> str:
    """A launchd property list that runs `argv`; what it prints goes to the file `log`."""
    words = "".join(f"    <string>{escape(part)}</string>\n" for part in argv)
    more = f"  <key>StandardErrorPath</key>\n  <string>{escape(log)}</string>\n"
    if environment:
        pairs = "".join(
            f"    <key>{escape(name)}</key>\n    <string>{escape(value)}</string>\n"
            for name, value in sorted(environment.items())
        )
        more += f"  <key>EnvironmentVariables</key>\n  <dict>\n{pairs}  </dict>\n"
    made = _ARGUMENTS.sub(lambda found: f"{found[1]}  <array>\n{words}  </array>\n{more}", text)
    return _signed(made, "<!-- ", " -->")


def edited(text: str) -> bool:
    """Whether somebody has changed this file since it was written, or it never was."""
    found = _MARKED.fullmatch(text)
    return found is None or _digest(found["body"]) != found["digest"]


def difference(path: str, there: str, wanted: str) -> str:
    """What writing `wanted` to `path` would change, as a unified diff; the line of the digest is left out."""
    before, after = (_unsigned(one).splitlines(keepends=True) for one in (there, wanted))
    lines = difflib.unified_diff(before, after, f"{path} (as it is)", f"{path} (as it would be)")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _signed(body: str, before: str, after: str) -> str:
    body = body.rstrip("\n") + "\n"
    return f"{body}{before}{MARK}{_digest(body)}{after}\n"


def _unsigned(text: str) -> str:
    found = _MARKED.fullmatch(text)
    return text if found is None else found["body"]


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()


def _word(part: str, *, first: bool) -> str:
    """One word of ExecStart (systemd.service(5), command lines). `$` means nothing in the program's own path."""
    escaped = part if first else part.replace("$", "$$")
    return part if _PLAIN.fullmatch(part) else _quoted(escaped)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'
