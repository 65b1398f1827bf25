"""Owns JWTs that are made and checked by hand, with `cryptography` alone: a second opinion on what mcphub signs and
believes.

It must not use what mcphub uses.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
_SIZES = {"ES256": 32, "ES384": 48, "ES512": 66}
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "RS256": hashes.SHA256(), "PS256": hashes.SHA256(), "ES256": hashes.SHA256(), "ES384": hashes.SHA384(),
    "ES512": hashes.SHA512(),
}  # fmt: skip


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unb64(text: str) -> bytes:
    assert "=" not in text
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def number(value: int, size: int = 0) -> str:
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def jwk(public: PublicKey, **more: str) -> dict[str, Any]:
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e), **more}
    if isinstance(public, ec.EllipticCurvePublicKey):
        point, size = public.public_numbers(), (public.key_size + 7) // 8
        at = {"x": number(point.x, size), "y": number(point.y, size)}
        return {"kty": "EC", "crv": f"P-{public.key_size}", **at, **more}
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": b64(raw), **more}


def public_of(found: dict[str, Any]) -> PublicKey:
    """The key of a JWK."""

    def value(name: str) -> int:
        return int.from_bytes(unb64(found[name]), "big")

    if found["kty"] == "RSA":
        return rsa.RSAPublicNumbers(value("e"), value("n")).public_key()
    if found["kty"] == "EC":
        curves: list[ec.EllipticCurve] = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()]
        curve = next(one for one in curves if f"P-{one.key_size}" == found["crv"])
        return ec.EllipticCurvePublicNumbers(value("x"), value("y"), curve).public_key()
    return ed25519.Ed25519PublicKey.from_public_bytes(unb64(found["x"]))


def pem(key: PrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode("ascii")


def signed(claims: dict[str, Any], key: PrivateKey | bytes | None, alg: str, **header: Any) -> str:
    """A JWT; with bytes by HMAC, with None not at all. Claims may be anything that Python can write."""
    head = {"alg": alg, "typ": "JWT", **header}
    data = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{data}.{b64(_signature(data.encode('ascii'), key, alg))}"


def _signature(data: bytes, key: PrivateKey | bytes | None, alg: str) -> bytes:
    if key is None:
        return b""
    if isinstance(key, bytes):
        return hmac.new(key, data, hashlib.sha256).digest()
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(_HASHES[alg])))
        size = _SIZES[alg]
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")
    if alg == "PS256":
        return key.sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    return key.sign(data, padding.PKCS1v15(), hashes.SHA256())


def opened(token: str, public: PublicKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, claims) of a JWT that this key has signed. Raises InvalidSignature."""
    head, body, signature = token.split(".")
    header, claims = json.loads(unb64(head)), json.loads(unb64(body))
    data, raw, alg = f"{head}.{body}".encode("ascii"), unb64(signature), header["alg"]
    if isinstance(public, ed25519.Ed25519PublicKey):
        assert alg in ("EdDSA", "Ed25519")
        public.verify(raw, data)
    elif isinstance(public, ec.EllipticCurvePublicKey):
        size = _SIZES[alg]
        assert len(raw) == 2 * size
        r, s = (int.from_bytes(part, "big") for part in (raw[:size], raw[size:]))
        public.verify(utils.encode_dss_signature(r, s), data, ec.ECDSA(_HASHES[alg]))
    elif alg == "PS256":
        public.verify(raw, data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    else:
        assert alg == "RS256"
        public.verify(raw, data, padding.PKCS1v15(), hashes.SHA256())
    return header, claims


def thumbprint(found: dict[str, Any]) -> str:
    """RFC 7638, for keys on a curve."""
    required = {name: found[name] for name in ("crv", "kty", "x", "y")}
    return b64(hashlib.sha256(json.dumps(required, sort_keys=True, separators=(",", ":")).encode()).digest())
