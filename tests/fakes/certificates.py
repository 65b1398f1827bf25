"""Owns a private certificate authority for one test: its own certificate, and those of servers it vouches for.

It must not know who trusts it.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """`path` is its certificate in PEM form."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls, directory: Path) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A Private Authority")])
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        authority = cls(directory, key, certificate)
        authority.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return authority

    @property
    def path(self) -> Path:
        return self.directory / "authority.pem"

    def server(self, *hosts: str, ago: int = 1, days: int = 2) -> ssl.SSLContext:
        """The TLS side of a server with these names or addresses; its certificate began `ago` days ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A Server")])
        names = [_general(host) for host in hosts]
        begin = datetime.datetime.now(datetime.UTC) - ago * DAY
        certificate = (
            _builder(name, self.certificate.subject, key, begin, days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        path = self.directory / f"server-{certificate.serial_number}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def client(self, name: str, password: bytes = b"") -> tuple[Path, Path]:
        """Files of a client's certificate and its key, the key encrypted where there is a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _builder(subject, self.certificate.subject, key).sign(self.key, hashes.SHA256())
        cert_path, key_path = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        key_path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
        )
        return cert_path, key_path


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime.datetime | None = None,
    days: int = 2,
) -> x509.CertificateBuilder:
    start = begin or datetime.datetime.now(datetime.UTC) - DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + days * DAY)
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
