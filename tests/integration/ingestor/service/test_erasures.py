"""Erasures: what is deleted for good leaves numbers and hashes, and a certificate."""

import hashlib
import json
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

import pytest
from groundline.v1 import evidence_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, SigningKeyStore, acquire
from groundline_evidence import KeyPair, verify
from groundline_extraction.documents import GivenDocument
from groundline_runtime.context import Caller, acting_as
from groundline_runtime.errors import (
    FailedPreconditionError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from groundline_tests.ingestor.services import ANN, BOB, Services, new

KEEPING: Final[Mapping[str, Any]] = {"history": {"everything": True}}


@pytest.fixture
async def document_id(services: Services, pool: Pool) -> str:
    """Make a collection of Ann's with a document that was replaced once, and nothing deleted before."""
    async with acquire(pool) as connection:
        await connection.execute("DELETE FROM erasures")
    await services.collections.create(ANN, new(readers=["*"], writers=["user:ann"], settings=KEEPING))
    for text in ("The pump takes 3 litres.", "The pump takes 9 litres."):
        [item] = await services.ingest(GivenDocument(text, uri="a"), caller=ANN)
    return item.document_id


async def asked_by(caller: Caller, work: Awaitable[Any]) -> None:
    with acting_as(caller):
        await work


async def listed(
    services: Services, caller: Caller, collection_id: str = ""
) -> Sequence[evidence_pb2.Erasure]:
    request = pb.ListErasuresRequest(collection_id=collection_id)
    return (await services.collections.erasures.list(caller, request)).erasures


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_an_erasure_counts_and_certifies(services: Services, pool: Pool, document_id: str) -> None:
    key = KeyPair.new()
    await SigningKeyStore(pool).add_first(key.key_id, key.public_key, key.private_key)
    async with acquire(pool) as connection:
        await connection.execute(
            "INSERT INTO threads (thread_id, owner, title) VALUES ($1::uuid, 'user:ann', 'T')", document_id
        )
        await connection.execute(
            """
            INSERT INTO messages (thread_id, message_index, message_id, role, content)
            VALUES ($1::uuid, 1, $1::uuid, 'assistant', 'See [1].')
            """,
            document_id,
        )
        await connection.execute(
            "INSERT INTO cited_revisions VALUES ($1::uuid, 'r', $1::uuid, 1), ($1::uuid, 's', $1::uuid, 1)",
            document_id,
        )
    await asked_by(ANN, services.documents.delete(ANN, "docs", document_id))

    [found] = await listed(services, ANN)
    assert (found.document_count, found.revision_count, found.chunk_count, found.answer_count) == (1, 1, 1, 1)
    assert (found.collection_id, found.is_collection) == ("docs", False)
    certificate = await services.collections.erasures.certificate(ANN, found.erasure_id)
    keys = [KeyPair(b"", each.public_key).jwk() for each in await SigningKeyStore(pool).list_keys()]
    values = verify(certificate, keys).values
    assert values["format"] == "groundline/erasure/1"
    hashes = {sha256("The pump takes 3 litres."), sha256("The pump takes 9 litres.")}
    assert set(values["erasure"]["contentHashes"]) == hashes
    assert "pump" not in json.dumps(values)
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT document_ids FROM erasures") == [document_id]


async def test_a_collection_deleted_whole_is_one_erasure(services: Services, document_id: str) -> None:
    await services.ingest(GivenDocument("Another.", uri="b"), caller=ANN)
    await asked_by(ANN, services.collections.delete(ANN, "docs"))
    [found] = await listed(services, ANN)
    assert (found.document_count, found.revision_count, found.is_collection) == (2, 1, True)


async def test_an_erasure_is_for_who_asked_for_it_and_who_administers_the_collection(
    services: Services, document_id: str
) -> None:
    await asked_by(Caller(("user:worker",)), services.documents.delete(ANN, "docs", document_id))
    [found] = await listed(services, Caller(("user:worker",)))
    assert await listed(services, ANN) == []
    assert list(await listed(services, ANN, "docs")) == [found]
    assert await listed(services, BOB) == []
    with pytest.raises(PermissionDeniedError):
        await listed(services, BOB, "docs")
    for caller, erasure_id in ((BOB, found.erasure_id), (ANN, str(uuid.uuid4()))):
        with pytest.raises(NotFoundError) as raised:
            await services.collections.erasures.certificate(caller, erasure_id)
        assert raised.value.reason == "ERASURE_NOT_FOUND"


async def test_a_deletion_that_fails_leaves_no_erasure(services: Services, document_id: str) -> None:
    hold = pb.SetLegalHoldRequest(collection_id="docs", document_ids=[document_id], reason="case 7")
    await services.documents.holds.change(ANN, hold)
    with pytest.raises(FailedPreconditionError):
        await asked_by(ANN, services.documents.delete(ANN, "docs", document_id))
    with pytest.raises(FailedPreconditionError):
        await asked_by(ANN, services.collections.delete(ANN, "docs"))
    assert await listed(services, ANN) == []


async def test_erasures_come_page_by_page(services: Services, document_id: str) -> None:
    for number in range(5):
        [item] = await services.ingest(GivenDocument(f"Text {number}.", uri=str(number)), caller=ANN)
        await asked_by(ANN, services.documents.delete(ANN, "docs", item.document_id))
    everything = await listed(services, ANN)
    assert len(everything) == 5
    token, pages = "", list[evidence_pb2.Erasure]()
    for _ in range(3):
        request = pb.ListErasuresRequest(page_size=2, page_token=token)
        page = await services.collections.erasures.list(ANN, request)
        pages += page.erasures
        token = page.next_page_token
    assert (pages, token) == (list(everything), "")


async def test_before_the_key_a_certificate_waits(services: Services, pool: Pool, document_id: str) -> None:
    await asked_by(ANN, services.documents.delete(ANN, "docs", document_id))
    [found] = await listed(services, ANN)
    async with acquire(pool) as connection:
        await connection.execute("DELETE FROM signing_keys")
    with pytest.raises(UnavailableError, match="coordinator"):
        await services.collections.erasures.certificate(ANN, found.erasure_id)
