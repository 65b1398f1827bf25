"""What is taken in a signed token: the algorithms that were named, and nothing by itself."""

from __future__ import annotations

import warnings

import pytest
from joserfc.errors import JoseError

from mcphub.auth.jose import Registry


def test_what_was_named() -> None:
    """Also by an old name, without a word on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Registry(["EdDSA"]).get_alg("EdDSA").name == "EdDSA"


@pytest.mark.parametrize("named", [[], ["RS256"]])
@pytest.mark.parametrize("name", ["none", "HS256", "ES256", "x"])
def test_what_was_not(name: str, named: list[str]) -> None:
    """S17: nothing else, where nothing was named least of all."""
    with pytest.raises(JoseError):
        Registry(named).get_alg(name)
