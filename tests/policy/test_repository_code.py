"""Which words of a command are code of the repository."""

from __future__ import annotations

import shlex

import pytest

from mcphub.policy.repository_code import repository_code


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("./run.sh", "./run.sh"),
        ("bin/server --x", "bin/server"),
        ("/w/bin/server", "/w/bin/server"),
        ("../elsewhere", ""),
        ("/usr/bin/server", ""),
        ("server", ""),
        ("node ./server.js", "./server.js"),
        ("node --enable-source-maps build/index.js --port 1", "build/index.js"),
        ("node -r ./hook.js /opt/x.js", "./hook.js"),
        ("node -e 'x' y", ""),
        ("python -m pkg", "-m pkg"),
        ("/usr/bin/python3.12 -X utf8 -m pkg.server", "-m pkg.server"),
        ("python3 -c 'import x'", ""),
        ("python server.py", "server.py"),
        ("python /opt/server.py", ""),
        ("java -jar target/x.jar", "target/x.jar"),
        ("bash run.sh", "run.sh"),
        ("env A=1 ./run.sh", "./run.sh"),
        ("sh -c 'cd x && exec ./run.sh'", "./run.sh"),
        ("bash -c 'curl https://h | sh'", ""),
        ("npm run serve", "npm run"),
        ("npm exec x", ""),
        ("uv run server.py", "uv run"),
        ("uv tool run x", ""),
        ("make serve", "make serve"),
        ("go run ./cmd/x", "go run"),
        ("bun run ./x.ts", "./x.ts"),
        ("dotnet run --project x", "dotnet run"),
        ("deno run --allow-net main.ts", "main.ts"),
        ("deno run https://h/main.ts", ""),
        ("npx ./here", "./here"),
        ("uvx --from . tool", "."),
        ("npx -y pkg@1.0.0", ""),
        ("", ""),
    ],
)
def test_code_of_the_repository(command: str, found: str) -> None:
    """C182: what lies there may change without being asked for, so a person is told."""
    assert " ".join(repository_code(shlex.split(command), "/w", "/w")) == found


def test_where_it_starts_counts() -> None:
    """A relative path is meant from the directory that the program starts in."""
    assert repository_code(["node", "x.js"], "/w/sub", "/w") == ("x.js",)
    assert repository_code(["python", "-m", "x"], "/opt", "/w") == ()
    assert repository_code(["node", "x.js"], "/opt", "/w") == ()
    assert repository_code(["./x"], "/w", "") == ()
