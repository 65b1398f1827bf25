"""Owns whether a file that we read for a person is that person's: who else could have written it.

It must not know what the file is for, nor what follows. Blocking calls on small local files.
"""

from __future__ import annotations

import os
import stat


def strangers(path: str) -> str:
    """Who else may have written the file at `path` (links are followed), as the end of "FILE ..."; "" = nobody.

    Root, and the members of the person's own group, are no strangers (case C137).
    """
    found = []
    real = os.path.realpath(path)
    for place, what in ((real, ""), (os.path.dirname(real), "its directory ")):
        try:
            status = os.stat(place)
        except (OSError, ValueError):
            continue
        if status.st_uid not in (0, os.geteuid()):
            found.append(f"{what}belongs to {_name(status.st_uid)}")
        elif status.st_mode & stat.S_IWOTH and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            found.append(f"{what}can be written by everybody")
    return " and ".join(found)


def _name(uid: int) -> str:
    import pwd  # few files belong to others

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
