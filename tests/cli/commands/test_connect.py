"""What the documentation says of connect."""

from __future__ import annotations

import pytest

from mcphub.cli.main import build_parser
from mcphub.sessions import bridge


@pytest.mark.parametrize(
    "arguments", [[], ["--client=x", "--workspace=/w", "--no-start"], ["--client="], ["--workspace=-x"], ["--server=x"]]
)
def test_its_options_reach_the_bridge(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the verb through its parser gets the same bridge."""
    got: list[list[str]] = []

    def main(argv: list[str]) -> int:
        got.append(argv)
        return 0

    monkeypatch.setattr(bridge, "main", main)
    args = build_parser("connect").parse_args(arguments)
    assert args.run(args) == 0
    assert got == [arguments]
