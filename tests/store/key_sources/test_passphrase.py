"""The key that is made from a passphrase."""

from __future__ import annotations

import pytest

from mcphub.store.key_sources.passphrase import Passphrase
from mcphub.store.sealed_file import Head
from mcphub.store.vault_state import Trouble, VaultUnavailable


def test_given_once() -> None:
    """The same passphrase and salt make the same key, which is there until another salt is; it does not print."""
    source = Passphrase()
    with pytest.raises(VaultUnavailable, match="mcphub vault unlock") as caught:
        source.keys(None)
    assert caught.value.trouble is Trouble.PASSPHRASE
    source.offer("correct horse")
    (key,) = source.keys(None)
    source.promote(key)
    head = Head(1, key.mark, key.salt)
    assert source.keys(head) == source.keys(None) == (key,)
    again = Passphrase()
    again.offer("correct horse")
    assert again.keys(head) == (key,)
    again.offer("correct horse ")
    assert again.keys(head) != (key,)
    assert "horse" not in repr(vars(source)) + repr(vars(again))
    with pytest.raises(VaultUnavailable):
        source.keys(Head(1, key.mark, b"other salt......"))
