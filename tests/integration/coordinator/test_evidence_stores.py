"""Answers with their records, and the keys that evidence is signed with, in PostgreSQL."""

import asyncio

import pytest
from google.protobuf.json_format import MessageToDict
from groundline.v1 import evidence_pb2
from groundline_coordinator.adapters.postgres import PostgresThreads
from groundline_coordinator.adapters.signing import PostgresSigner
from groundline_coordinator.ports import ThreadStore
from groundline_database import Pool, SigningKeyStore
from groundline_evidence import EvidenceError, KeyPair, verify
from groundline_runtime.errors import NotFoundError
from groundline_tests.coordinator.fakes import FakeThreads
from groundline_tests.coordinator.threads import (
    RECORD,
    NewDocument,
    answered_from,
    asked,
    exchange,
    exchanged,
    new_id,
    source_of,
)


async def test_an_answer_is_read_with_its_question_and_its_record(threads: ThreadStore) -> None:
    key, first, second = new_id(), exchange("one?", "One."), exchange("two?", "Two.")
    for each in (first, second):
        await exchanged(threads, "user:a", key, each)
    await threads.ask("user:a", key, "t", asked("three?"), create=False)

    found = await threads.answers("user:a", (), key, "", limit=10)
    [one] = await threads.answers("user:a", (), key, second[1].message_id, limit=10)

    assert [(each.question.content, each.answer.content) for each in found] == [
        ("one?", "One."),
        ("two?", "Two."),
    ]
    assert [each.question.message_id for each in found] == [first[0].message_id, second[0].message_id]
    assert all(each.record == RECORD for each in found)
    assert one.answer.content == "Two."
    assert len(await threads.answers("user:a", (), key, "", limit=1)) == 1


async def test_only_ones_own_answers_are_read(threads: ThreadStore) -> None:
    key, messages = new_id(), exchange("q")
    await exchanged(threads, "user:a", key, messages)
    for owner, thread, message, reason in (
        ("user:b", key, messages[1].message_id, "THREAD_NOT_FOUND"),
        ("user:a", new_id(), "", "THREAD_NOT_FOUND"),
        ("user:a", key, new_id(), "MESSAGE_NOT_FOUND"),
        # The question has a message too.
        ("user:a", key, messages[0].message_id, "MESSAGE_NOT_FOUND"),
    ):
        with pytest.raises(NotFoundError) as failure:
            await threads.answers(owner, (), thread, message, limit=10)
        assert failure.value.reason == reason


async def test_nothing_is_left_of_the_record_of_an_answer_whose_document_is_deleted(
    threads: ThreadStore, new_document: NewDocument, database: Pool
) -> None:
    key, document_id = new_id(), await new_document()
    await exchanged(threads, "", key, (asked("q"), answered_from(source_of(document_id), cited=[1])))
    [before] = await threads.answers("", (), key, "", limit=1)
    assert before.record == RECORD

    if isinstance(threads, FakeThreads):
        threads.hidden.add(document_id)
    else:
        await database.execute("DELETE FROM documents WHERE document_id = $1", document_id)

    [after] = await threads.answers("", (), key, "", limit=1)
    assert after.answer.is_withheld
    assert after.record is None
    if isinstance(threads, PostgresThreads):
        stored = "SELECT record FROM messages WHERE thread_id = $1 AND message_index = 1"
        assert await database.fetchval(stored, key) is None


async def test_an_answer_after_its_documents_end_has_no_record(database: Pool, restricted: None) -> None:
    threads, key = PostgresThreads(database), new_id()
    await exchanged(threads, "", key, (asked("q"), answered_from(source_of(new_id()), cited=[1])))
    stored = "SELECT record FROM messages WHERE thread_id = $1 AND message_index = 1"
    assert await database.fetchval(stored, key) is None


async def test_an_answer_of_an_earlier_release_has_no_record(database: Pool) -> None:
    threads, key = PostgresThreads(database), new_id()
    await exchanged(threads, "", key, exchange("q"))
    await database.execute("UPDATE messages SET record = NULL WHERE thread_id = $1", key)
    [found] = await threads.answers("", (), key, "", limit=1)
    assert found.record is None


async def test_replicas_that_start_at_once_make_one_key(database: Pool) -> None:
    await database.execute("DELETE FROM signing_keys")
    await asyncio.gather(*(PostgresSigner(database).prepare() for _ in range(5)))
    [key] = await PostgresSigner(database).keys()
    await PostgresSigner(database).prepare()
    assert [each.kid for each in await PostgresSigner(database).keys()] == [key.kid]


async def test_a_key_that_was_replaced_signs_nothing_more_and_still_verifies(database: Pool) -> None:
    signer, store = PostgresSigner(database), SigningKeyStore(database)
    await signer.prepare()
    [before] = await signer.keys()
    old = await signer.sign(evidence_pb2.Evidence(format="f"))

    keys = [KeyPair.new() for _ in range(3)]
    await asyncio.gather(*(store.replace(key.key_id, key.public_key, key.private_key) for key in keys))

    new = await signer.sign(evidence_pb2.Evidence(format="f"))
    published = [MessageToDict(key) for key in await signer.keys()]
    assert verify(old, published).key_id == before.kid
    assert verify(new, published).key_id in {key.key_id for key in keys}
    assert len(published) == 4
    assert [key.get("retireTime") is None for key in published] == [True, False, False, False]
    private = "SELECT count(private_key) FROM signing_keys"
    assert await database.fetchval(private) == 1
    with pytest.raises(EvidenceError, match="not among those given"):
        verify(new, [key for key in published if key["kid"] == before.kid])
