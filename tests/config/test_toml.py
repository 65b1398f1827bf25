"""Where a text is no TOML."""

from __future__ import annotations

import pytest

from mcphub.config.toml import TomlError, parse_toml


def test_a_table() -> None:
    """With or without a byte order mark."""
    assert parse_toml(b"\xef\xbb\xbfa = 1\r\n", "/f") == {"a": 1}


@pytest.mark.parametrize(
    ("data", "begin"),
    [
        (b"a = 1\nb = \n", "/f:2:5: Invalid value"),
        (b"a = 1\nb", "/f:2:2: Expected '=' after a key in a key/value pair, and the file ends here"),
        (b"a = 1\nb = [\n\n", "/f:2:6: "),
        (b"a = 1\na = 2\n", "/f:2:6: Cannot overwrite a value"),
        (b"[t]\n[t]\n", "/f:2:3: Cannot declare"),
        (b"a = 1\nb = '\xff'", "/f:2:6: not UTF-8 at byte 11"),
        (b"a = " + b"[" * 100_000, "/f: RecursionError while reading it"),
    ],
)
def test_where_it_is_wrong(data: bytes, begin: str) -> None:
    """File, line and column, also where the file ends too early."""
    with pytest.raises(TomlError) as caught:
        parse_toml(data, "/f")
    assert str(caught.value).startswith(begin)
