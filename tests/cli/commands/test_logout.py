"""The verb logout."""

from __future__ import annotations

import json

import pytest
from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], ["a: signed out, and its tokens are revoked"]),
        (
            ["itself"],
            ["itself: signed out, and its tokens are revoked; it gets tokens again by itself when it is used"],
        ),
        (
            ["itself-no-more"],
            [
                "itself-no-more: signed out, and its tokens are revoked; it needs the organisation's login now: "
                "mcphub login itself-no-more"
            ],
        ),
        (
            ["--all"],
            [
                "a: signed out here; its authorization server did not confirm that it revoked",
                "https://login.example: signed out here",
                "2 more, of servers that are not configured any more",
            ],
        ),
    ],
)
def test_signing_out(place: Place, hub: CannedHub, portal: BlockingPortal, words: list[str], said: list[str]) -> None:
    """What became of each."""
    assert place.run("logout", *words) == ("".join(f"{line}\n" for line in said), "", 0)
    assert "signed_out" in json.loads(place.run("logout", *words, "--json")[0])


def test_usage(place: Place) -> None:
    """One server, or all; and without a daemon that is said."""
    for words in ([], ["a", "--all"], [""]):
        assert place.run("logout", *words)[2] == 2
    assert place.run("logout", "a")[2] == 3
