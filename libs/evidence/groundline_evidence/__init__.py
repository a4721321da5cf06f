"""Documents in canonical JSON (RFC 8785), signed with Ed25519 as detached JSON Web Signatures (RFC 7797)."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jwt import PyJWTError
from jwt.api_jws import PyJWS
from jwt.utils import base64url_decode, base64url_encode

__all__ = ["EvidenceError", "KeyPair", "Verified", "public_jwk", "sign", "verify"]

ALGORITHM: Final = "EdDSA"

_SIGNATURE: Final = "signature"

_JWS: Final = PyJWS(algorithms=[ALGORITHM])


class EvidenceError(ValueError):
    """A document that cannot be trusted; the message says why, in words for people."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair of Ed25519 (RFC 8032), each half 32 bytes."""

    private_key: bytes = field(repr=False)
    public_key: bytes

    @classmethod
    def new(cls) -> Self:
        """Return a random key."""
        return cls.of(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def of(cls, private_key: bytes) -> Self:
        """Return the key with this private half."""
        public = Ed25519PrivateKey.from_private_bytes(private_key).public_key()
        return cls(private_key, public.public_bytes_raw())

    @property
    def key_id(self) -> str:
        return _key_id(self.public_key)

    def jwk(self) -> dict[str, Any]:
        """Return the public half as a JSON Web Key."""
        return public_jwk(self.public_key)


@dataclass(frozen=True, slots=True)
class Verified:
    """Values of a document without its signature, and the id of the key that signed it."""

    values: Mapping[str, Any]
    key_id: str


def public_jwk(public_key: bytes) -> dict[str, Any]:
    """Return a public key of 32 bytes as a JSON Web Key (RFC 8037), named by its thumbprint (RFC 7638)."""
    return {**_required(public_key), "kid": _key_id(public_key), "alg": ALGORITHM, "use": "sig"}


def sign(values: Mapping[str, Any], key: KeyPair) -> bytes:
    """Return the values with a `signature` of the others as canonical JSON.

    Raises ValueError for values that JSON lacks, such as an infinite number.
    """
    read = json.loads(json.dumps(dict(values)), parse_int=_number)
    signed = {name: value for name, value in read.items() if name != _SIGNATURE}
    signature = _JWS.encode(
        rfc8785.dumps(signed),
        Ed25519PrivateKey.from_private_bytes(key.private_key),
        algorithm=ALGORITHM,
        headers={"kid": key.key_id, "typ": "JOSE"},
        is_payload_detached=True,
    )
    return rfc8785.dumps({**signed, _SIGNATURE: signature})


def verify(document: bytes, keys: Iterable[Mapping[str, Any]]) -> Verified:
    """Return what was signed, if one of these JSON Web Keys signed it and no byte has changed since.

    Raises EvidenceError.
    """
    values = _read(document)
    signature = values.pop(_SIGNATURE, None)
    if not isinstance(signature, str):
        raise EvidenceError("it has no signature")
    key_id = _signer(signature)
    key = next((each for each in keys if each.get("kid") == key_id), None)
    if key is None:
        raise EvidenceError(f"the key that signed it is not among those given: {key_id}")
    try:
        _JWS.decode_complete(
            signature,
            Ed25519PublicKey.from_public_bytes(_public_key(key)),
            algorithms=[ALGORITHM],
            detached_payload=rfc8785.dumps(values),
        )
    except (PyJWTError, ValueError) as error:
        raise EvidenceError("it was changed: the signature does not fit these contents") from error
    _require_time(values, key)
    return Verified(values, key_id)


def _read(document: bytes) -> dict[str, Any]:
    try:
        values = json.loads(document.decode("utf-8"), parse_int=_number)
        canonical = rfc8785.dumps(values)
    except (ValueError, RecursionError) as error:
        raise EvidenceError("it is not canonical JSON") from error
    if not isinstance(values, dict):
        raise EvidenceError("it is not a JSON object")
    if canonical != document:
        raise EvidenceError("it was changed: it is not in the canonical form that was signed")
    return values


def _number(digits: str) -> int | float:
    """Return a whole number as the double that it is in JSON, if it is beyond those that are exact."""
    number = int(digits)
    return number if abs(number) < 2**53 else float(digits)


def _signer(signature: str) -> str:
    """Return the id of the key that a signature names."""
    head, _, rest = signature.partition(".")
    payload, _, raw = rest.partition(".")
    try:
        # The last digit of base64 has bits that mean nothing; they must be 0 as well.
        is_exact = all(base64url_encode(base64url_decode(part)).decode() == part for part in (head, raw))
        header = json.loads(base64url_decode(head))
    except ValueError as error:
        raise EvidenceError("its signature cannot be read") from error
    if not is_exact or payload or not isinstance(header, dict) or not isinstance(header.get("kid"), str):
        raise EvidenceError("its signature cannot be read")
    return str(header["kid"])


def _require_time(values: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    """Raise EvidenceError if the key was not in use when the document says that it was signed."""
    issued = _time(values.get("issueTime"))
    begun, ended = _time(key.get("createTime")), _time(key.get("retireTime"))
    if issued is not None and ((begun and issued < begun) or (ended and issued > ended)):
        raise EvidenceError("its key was not in use when it says that it was signed")


def _time(text: object) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(str(text))
    except ValueError as error:
        raise EvidenceError(f"not a time: {text}") from error


def _required(public_key: bytes) -> dict[str, str]:
    return {"crv": "Ed25519", "kty": "OKP", "x": base64url_encode(public_key).decode()}


def _key_id(public_key: bytes) -> str:
    digest = hashlib.sha256(rfc8785.dumps(_required(public_key))).digest()
    return base64url_encode(digest).decode()


def _public_key(key: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes of a JSON Web Key. Raises ValueError."""
    if key.get("kty") != "OKP" or key.get("crv") != "Ed25519":
        raise ValueError("not a key of Ed25519")
    return base64url_decode(str(key.get("x")))
