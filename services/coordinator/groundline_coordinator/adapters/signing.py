"""Signatures of the installation, whose keys are in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from groundline.v1 import evidence_pb2
from groundline_database import Pool, SigningKeyStore, StoredSigningKey


class PostgresSigner:
    """A Signer. Its keys are read for each signature, so that one that was replaced signs nothing more.

    groundline_evidence is imported where evidence is asked for: it takes 12 MB.
    """

    def __init__(self, pool: Pool) -> None:
        self._keys = SigningKeyStore(pool)

    async def prepare(self) -> None:
        """Make the first key of an installation, unless it has one."""
        if await self._keys.list_keys():
            return
        from groundline_evidence import KeyPair

        key = KeyPair.new()
        await self._keys.add_first(key.key_id, key.public_key, key.private_key)

    async def sign(self, evidence: evidence_pb2.Evidence) -> bytes:
        """See Signer.sign."""
        from groundline_evidence import KeyPair, sign

        private_key, now = await self._keys.in_use()
        evidence.issue_time.FromDatetime(now)
        return sign(json_of(evidence), KeyPair.of(private_key))

    async def keys(self) -> Sequence[evidence_pb2.SigningKey]:
        """See Signer.keys."""
        return [_published(key) for key in await self._keys.list_keys()]


def json_of(evidence: evidence_pb2.Evidence) -> dict[str, Any]:
    """Return evidence as it is signed: every field is there, as in the responses of the gateway."""
    return MessageToDict(evidence, always_print_fields_with_no_presence=True)


def _published(key: StoredSigningKey) -> evidence_pb2.SigningKey:
    from groundline_evidence import public_jwk

    published = evidence_pb2.SigningKey(**public_jwk(key.public_key))
    published.create_time.FromDatetime(key.create_time)
    if key.retire_time is not None:
        published.retire_time.FromDatetime(key.retire_time)
    return published
