"""The secret of the loopback endpoint."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store.http_token import http_token


def test_it_is_made_once(tmp_path: Path) -> None:
    """256 random bits, mode 0600 in a directory of mode 0700, the same at the next start, another for another user."""
    path = tmp_path / "state" / "mcphub" / "http-token"
    token = http_token(str(path))
    assert len(token) == 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert http_token(str(path)) == token
    path.unlink()
    assert http_token(str(path)) != token


def test_an_own_one_is_taken(tmp_path: Path) -> None:
    """A person may choose it; an empty file is filled."""
    path = tmp_path / "http-token"
    path.touch(0o600)
    assert len(http_token(str(path))) == 43
    path.write_text("a-token-of-my-own-choice-1\n", "utf-8")
    assert http_token(str(path)) == "a-token-of-my-own-choice-1"


@pytest.mark.parametrize("content", ["***", "x" * 300, "a blank in it, which no URL has", "a/b" * 10, "\u6f22" * 30])
def test_what_is_no_token(tmp_path: Path, content: str) -> None:
    """It is refused and not replaced: hosts have it in their files. The text is not repeated."""
    path = tmp_path / "http-token"
    path.touch(0o600)
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match="a token is 22 to 200") as caught:
        http_token(str(path))
    assert content not in str(caught.value)
    assert path.read_text("utf-8") == content


def test_others_must_not_read_it(tmp_path: Path) -> None:
    """A secret that others can read is none."""
    path = tmp_path / "http-token"
    http_token(str(path))
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read it"):
        http_token(str(path))


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """A place that is no directory is named."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot write"):
        http_token(os.path.join(tmp_path, "file", "http-token"))
