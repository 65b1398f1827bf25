"""What is printed of a context."""

from __future__ import annotations

from mcphub.config.entries.context import Context, EnvFile


def test_no_value_is_in_a_repr() -> None:
    """C025: neither the environment nor a file that was read shows its values."""
    file = EnvFile({"A": "tok-1"})
    assert "tok-" not in repr(Context({"B": "tok-2"}, env_files={"/e": file})) + repr(file)
