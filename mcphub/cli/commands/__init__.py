"""Owns the table of verbs: which module each one is in, and what it is for in one line.

It must not import any of them: only the asked verb is loaded. Each module has DESCRIPTION, `arguments(parser)` and
`run(args)`.
"""

from __future__ import annotations

#: verb -> (module beside this file, one line of help). The order is that of `mcphub --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("serve", "run the daemon in the foreground"),
    "connect": ("connect", "attach an agent: MCP on stdin and stdout"),
    "status": ("status", "what runs, what does not, and why"),
    "why": ("why", "why a server runs or does not, and what would change it"),
    "tools": ("tools", "list the merged tools"),
    "call": ("call", "call one tool"),
    "calls": ("calls", "what became of calls that may have changed something"),
    "login": ("login", "sign in to a server, or to all that need it"),
    "logout": ("logout", "sign out of a server, or of all"),
    "reconnect": ("reconnect", "close and open servers again"),
    "logs": ("logs", "what a server wrote to stderr"),
    "add": ("add", "add a server to a file, or to the daemon that runs"),
    "add-json": ("add_json", "add a server by its whole entry"),
    "remove": ("remove", "take a server away again"),
    "enable": ("enable", "switch a server on again"),
    "disable": ("disable", "switch a server off"),
    "env": ("env", "variables that entries refer to; values are never shown"),
    "secret": ("secret", "secrets that entries refer to, kept sealed; values are never shown"),
    "vault": ("vault", "whether tokens and secrets can be had; unlock it, change its key"),
    "approve": ("approve", "let servers run that this directory asks for"),
    "reject": ("reject", "never run a server that this directory asks for"),
    "policy": ("policy", "the rules in force, what they say, what a file of them would do"),
    "config": ("config", "every file and entry that counts or does not; what is wrong with them"),
    "service": ("service", "run the daemon as a service of systemd or launchd"),
    "stop": ("stop", "shut the daemon down"),
}

#: What every verb's exit status means; `mcphub VERB --help` ends with it.
EXIT_STATUS = """\
exit status:
  0  done; for status: every server is connected or resting
  1  refused or failed; for status: a server failed or needs a login, or a file has a problem
  2  usage
  3  no daemon answers
"""
