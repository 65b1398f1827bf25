"""Certificates that the environment names, in real files."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from mcphub.errors import TransportError
from mcphub.outbound.trust import tls_context, trusting_nobody
from mcphub.spec import TlsFiles
from tests.fakes.certificates import Authority


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    """C074: a file that is missing, or holds none, is named with its variable; nothing is trusted in its place."""
    with pytest.raises(TransportError, match="SSL_CERT_FILE: there is no /nowhere") as caught:
        tls_context({"SSL_CERT_FILE": "/nowhere"})
    assert caught.value.kind == "config"
    (tmp_path / "junk.pem").write_text("no certificate")
    with pytest.raises(TransportError, match="NODE_EXTRA_CA_CERTS=") as caught:
        tls_context({"NODE_EXTRA_CA_CERTS": str(tmp_path / "junk.pem")})
    assert caught.value.kind == "config"


def test_one_context_for_all(tmp_path: Path) -> None:
    """Twenty servers share what the system's store costs; a changed file is read again."""
    authority = Authority.made(tmp_path)
    env = {"SSL_CERT_FILE": str(authority.path)}
    first = tls_context(env)
    assert tls_context(env) is first
    os.utime(authority.path, ns=(1, 1))
    assert tls_context(env) is not first


def test_nobody_is_trusted_without_a_store() -> None:
    """C074: the context of plain http, should TLS ever come to it, verifies and trusts no authority."""
    context = trusting_nobody()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.get_ca_certs() == []


def test_certificates_of_an_entry(tmp_path: Path) -> None:
    """They count for its server alone: no context of others has them; its authorities stand in place of all."""
    authority = Authority.made(tmp_path)
    env = {"SSL_CERT_FILE": str(authority.path)}
    cert, key = authority.client("me")
    own = tls_context(env, TlsFiles(str(cert), str(key)))
    assert own is not tls_context(env)
    assert own is not tls_context(env, TlsFiles(str(cert), str(key)))
    only = tls_context({"SSL_CERT_FILE": "/nowhere"}, TlsFiles(ca=str(authority.path)))
    assert len(only.get_ca_certs()) == 1 and "A Private Authority" in repr(only.get_ca_certs())
    for context in (own, only):
        assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (TlsFiles(ca="/nowhere"), "tls.ca /nowhere: No such file"),
        (TlsFiles(cert="/nowhere"), "tls.cert /nowhere: No such file"),
        (TlsFiles(cert="me.pem"), "tls.cert DIR/me.pem: the private key is missing: name its file in tls.key"),
        (TlsFiles("me.pem", "me.pem"), "with tls.key DIR/me.pem: there is no private key in tls.key"),
        (TlsFiles("me.key", "me.key"), "with tls.key DIR/me.key: there is no certificate in tls.cert"),
        (TlsFiles("me.pem", "other.key"), "with tls.key DIR/other.key: key values mismatch"),
        (TlsFiles("locked.pem", "locked.key"), "PEM is expected, without a password"),
        (TlsFiles(ca="me.key"), "tls.ca DIR/me.key: "),
    ],
)
def test_certificates_of_an_entry_that_cannot_be_used(files: TlsFiles, said: str, tmp_path: Path) -> None:
    """The key of the entry and the file are named; nobody is asked for a password."""
    authority = Authority.made(tmp_path)
    authority.client("me")
    authority.client("other")
    authority.client("locked", b"password")
    paths = [path and os.path.join(tmp_path, path) for path in (files.cert, files.key, files.ca)]
    with pytest.raises(TransportError) as caught:
        tls_context({}, TlsFiles(paths[0], paths[1], paths[2]))
    assert caught.value.kind == "config"
    assert said.replace("DIR", str(tmp_path)) in str(caught.value)
