"""Which commands fetch code that may be another the next time."""

from __future__ import annotations

import shlex

import pytest

from mcphub.policy.unpinned import unpinned

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("npx -y pkg", "pkg"),
        ("sh -c 'cd x && npx foo'", "foo"),
        ("bash -lc 'A=1 exec uvx a; npx b@1.2.3'", "a"),
        ("nohup env -u X npx foo", "foo"),
        ("npx pkg@latest --flag x", "pkg@latest"),
        ("npx -y pkg@1", "pkg@1"),
        ("npx -y pkg@^1.2.3", "pkg@^1.2.3"),
        ("npx -y pkg@1.2.3", ""),
        ("npx -y pkg@1.2.3-beta.1", ""),
        ("npx -y @scope/pkg", "@scope/pkg"),
        ("npx -y @scope/pkg@2.0.1", ""),
        ("/usr/local/bin/npx --yes @scope/pkg@next", "@scope/pkg@next"),
        ("npx.cmd pkg", "pkg"),
        ("npx --package=a@1.0.0 -p b run-b", "b"),
        ("npx -p a@1.0.0 b", ""),
        ("npx --registry http://127.0.0.1/ -- pkg", "pkg"),
        ("npx ./here", ""),
        ("npx github:o/r", "github:o/r"),
        (f"npx git+https://h/r.git#{COMMIT}", ""),
        ("npx git+https://h/r.git#main", "git+https://h/r.git#main"),
        ("npm exec pkg", "pkg"),
        ("npm run start", ""),
        ("pnpm dlx pkg@1.0.0", ""),
        ("yarn dlx pkg", "pkg"),
        ("bunx pkg", "pkg"),
        ("bun x pkg@1.2.3", ""),
        ("uvx pkg", "pkg"),
        ("uvx pkg@latest", "pkg@latest"),
        ("uvx pkg@1.2.3", ""),
        ("uvx pkg==1.2.3", ""),
        ("uvx pkg==1.2.*", "pkg==1.2.*"),
        ("uvx pkg>=1", "pkg>=1"),
        ("uvx --from pkg==1.0 tool", ""),
        ("uvx --from pkg tool", "pkg"),
        ("uvx --with extra --python 3.12 pkg==1.0", "extra"),
        (f"uvx --from git+https://h/r@{COMMIT} tool", ""),
        ("uvx --from git+https://h/r tool", "git+https://h/r"),
        ("uvx --from ./here tool", ""),
        ("uv tool run pkg", "pkg"),
        ("uv run server.py", ""),
        ("pipx run pkg", "pkg"),
        ("pipx run --spec pkg==2.0 tool", ""),
        ("docker run -i --rm img", "img"),
        ("docker run -i --rm -e A -v /a:/b --name x img:latest arg", "img:latest"),
        ("docker run --env=A -eB img:1.2", "img:1.2"),
        (f"docker run -i --rm --network host img@{SHA} arg", ""),
        (f"podman run img:1@{SHA}", ""),
        ("docker container run img", "img"),
        ("docker ps", ""),
        ("env A=1 npx pkg", "pkg"),
        ("python -m server", ""),
        ("node server.js", ""),
        ("npx", ""),
        ("docker run", ""),
        ("", ""),
    ],
)
def test_what_is_not_pinned(command: str, found: str) -> None:
    """C182: a package without an exact version, an image without a digest, is named as it is written."""
    assert unpinned(shlex.split(command)) == ((found,) if found else ())


def test_several_at_once() -> None:
    """C182: each one is named."""
    assert unpinned(["npx", "-p", "a", "-p", "b@1", "c"]) == ("a", "b@1")
    assert unpinned(["uvx", "--with", "a", "--with=b==1", "c"]) == ("a", "c")
