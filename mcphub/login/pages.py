"""Owns the pages that a person sees in the browser. Those of the callback are constant.

It must not know requests. What is filled in is escaped, and names come from a person's own files alone.
"""

from __future__ import annotations

#: As html.escape does, which comes with a table of two thousand names.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})

_FRAME = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def escape(text: str) -> str:
    return text.translate(_ESCAPES)


def _page(title: str, *paragraphs: str) -> str:
    return _FRAME.format(title=title, body="\n".join(f"<p>{one}</p>" for one in paragraphs))


#: What the callback answers.
DONE = _page("Signed in", "mcphub has what it needs. You can close this window.")
FAILED = _page(
    "Not signed in",
    "The sign-in did not work. What went wrong stands where you began it, and in <code>mcphub status</code>.",
    "You can close this window.",
)
STRANGE = _page(
    "Not signed in",
    "This answer belongs to no sign-in that mcphub waits for. It may be an old window.",
    "You can close this window.",
)

#: What the page of an invitation answers where it cannot be used.
NOT_YOURS = _page("Not for you", "This page is for the person who runs mcphub on this machine.")
OVER = _page(
    "This page has been used",
    "It can be opened once, in one browser, for some minutes. Ask your agent again, or run "
    "<code>mcphub login</code> in a terminal.",
)


def invitation(server: str, host: str, onward: str) -> str:
    """Whether to sign in to this server, at this host; `onward` is where the button leads."""
    return _page(
        "Sign in for mcphub",
        f"An agent on this machine asked for something that needs you to sign in to <strong>{escape(server)}</strong>.",
        f"The sign-in is at <strong>{escape(host)}</strong>. Go on only if you know that place.",
        f'<a href="{escape(onward)}" role="button" rel="noreferrer">Go on to {escape(host)}</a>',
        "If you did not expect this, close this window: nothing has happened yet.",
    )


def could_not_begin(server: str, why: str) -> str:
    return _page(
        "Cannot sign in",
        f"The sign-in to <strong>{escape(server)}</strong> could not begin: {escape(why)}.",
        f"<code>mcphub login {escape(server)}</code> in a terminal says more.",
    )


def signed_in_already(server: str) -> str:
    return _page("Signed in", f"mcphub is signed in to <strong>{escape(server)}</strong>. You can close this window.")
