"""The verb serve."""

from __future__ import annotations

import argparse

import pytest

from mcphub import daemon
from mcphub.cli.main import build_parser


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], ("info", "auto", None)),
        (["--log-level", "debug", "--log-format", "json", "--ready-fd", "3"], ("debug", "json", 3)),
    ],
)
def test_the_daemon_gets_the_options(
    arguments: list[str], values: tuple[str, str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb adds nothing of its own; its status is the daemon's."""
    got: list[argparse.Namespace] = []

    def main(args: argparse.Namespace, started: object) -> int:
        got.append(args)
        return 7

    monkeypatch.setattr(daemon, "main", main)
    args = build_parser("serve").parse_args(arguments)
    assert args.run(args) == 7
    assert (got[0].log_level, got[0].log_format, got[0].ready_fd) == values


def test_the_descriptor_is_not_for_people() -> None:
    """`--ready-fd` is between mcphub and itself."""
    assert "ready" not in build_parser("serve").format_help()
