"""Holds the shape of the project: what every module says of itself, where its test is, which names are refused."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mcphub"
TESTS = ROOT / "tests"
MODULES = sorted(PACKAGE.rglob("*.py"))

#: Modules without a test file of their own, and who holds them instead.
HELD_ELSEWHERE = {
    "__main__.py": "one call; every daemon that `mcphub connect` starts in tests/e2e goes through it",
    "channel.py": "protocols without code; mypy holds them, tests/transport runs them",
    "auth/home.py": "protocols and a value; mypy holds auth/credentials.py to them, tests/auth have a stand-in",
    "auth/occasion.py": "one value; tests/auth/test_client_credentials.py and its like make it",
    "errors.py": "exception classes without branches, raised in every package's tests",
    "gateway/agent.py": "a protocol without code; mypy holds sessions/session.py to it",
    "config/policy_document.py": "one value without code; tests/policy/test_document.py reads it",
    "policy/matchers/matcher.py": "a protocol; mypy holds it, tests/policy/matchers run what implements it",
    "policy/rules.py": "values without code; tests/policy/test_document.py and test_decide.py read them",
    "service/names.py": "four names; tests/service and tests/cli/commands/test_service.py ask by them",
    "status.py": "types only; mypy holds them, tests/control and tests/e2e read them",
    "store/vault_state.py": "values and two exceptions; tests/store/test_vault_file.py gets every one of them",
    "transport/launcher/__main__.py": "one call; every launcher of the tests starts by it",
    "transport/kinds.py": "a table; every server that any test opens is opened by it",
    "transport/launcher/execution.py": "every program that tests/transport/test_process.py starts goes through it",
    "transport/launcher/start.py": "the first step of every launcher; tests/transport/test_process.py takes it",
    "transport/launcher_client.py": "the Linux half of transport/process.py; tests/transport/test_process.py runs it",
    "transport/launcher_link.py": "the launcher process seen by launcher_client.py; the same tests run it",
    "transport/process_groups.py": "the other half of transport/process.py; tests/transport/test_process.py runs it",
    "transport/one_stream.py": "three constants; tests/transport/test_in_process.py and test_stdio.py read them",
    "transport/link.py": "a protocol and a record; tests/transport/test_stdio.py and its like open them",
}

#: Test files that hold several modules to the same questions.
SHARED = {"tests/transport/test_every_binding.py", "tests/gateway/test_whose_question.py"}

#: Names that say nothing about what is inside.
REFUSED_NAMES = {"manager", "managers", "utils", "util", "helpers", "helper", "common", "base", "misc", "core"}

#: Where this project was made is nobody's business; put together here so that this file passes its own test.
REFUSED_TEXT = ("/work" + "/main", "/work" + "/shared", "/root" + "/.", "pypi" + ".org", "registry." + "npmjs")


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_says_what_it_owns_and_what_it_must_not_know(path: Path) -> None:
    """A reader finds the place of a change by first sentences alone."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    first, _, rest = docstring.partition("\n\n")
    assert first.startswith("Owns "), f"{name(path)}: the docstring begins with what the module owns"
    assert first.endswith("."), f"{name(path)}: the first paragraph is one sentence"
    assert "must not" in rest, f"{name(path)}: the second paragraph says what the module must not know"


def test_every_module_has_its_test() -> None:
    """tests/x/test_y.py holds mcphub/x/y.py, or the table above says who does."""
    missing = []
    for path in MODULES:
        relative = path.relative_to(PACKAGE)
        if path.name != "__init__.py" and not (TESTS / relative.parent / f"test_{path.name}").exists():
            missing.append(relative.as_posix())
    assert sorted(missing) == sorted(HELD_ELSEWHERE)


def test_every_test_has_its_module() -> None:
    """A test file that outlives its module tests nothing that anybody reads."""
    packages = [path.parent.relative_to(PACKAGE) for path in MODULES if path.name == "__init__.py"]
    orphans = [
        test.relative_to(ROOT).as_posix()
        for package in packages
        for test in (TESTS / package).glob("test_*.py")
        if test != Path(__file__) and not (PACKAGE / package / test.name.removeprefix("test_")).exists()
    ]
    assert set(orphans) == SHARED


def test_every_test_folder_is_a_package() -> None:
    """Two test files of one name are told apart by their folders only where those are packages."""
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    """What has no better name than these is two things."""
    assert [name(path) for path in MODULES if {path.stem, *path.relative_to(ROOT).parts} & REFUSED_NAMES] == []


def test_no_file_knows_where_it_was_made() -> None:
    """A clone anywhere is the same project."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    found = []
    for relative in filter(None, listing.stdout.decode().split("\0")):
        path = ROOT / relative
        if path.is_file() and not path.is_symlink():
            text = path.read_text("utf-8", "replace")
            found += [f"{relative}: {word}" for word in REFUSED_TEXT if word in text]
    assert found == []
