"""Certificates that the environment names, in real files."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from mcphub.errors import TransportError
from mcphub.outbound.trust import tls_context, trusting_nobody
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
