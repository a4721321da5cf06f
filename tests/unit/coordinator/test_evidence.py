import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from groundline.v1 import chat_pb2, error_pb2, options_pb2, passage_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.service.evidence import MAX_ANSWERS, EvidenceService
from groundline_evidence import verify
from groundline_runtime.errors import FailedPreconditionError, NotFoundError
from groundline_tests.coordinator.fakes import FakeRetriever, FakeSigner, found, make_chunk, rewrite
from groundline_tests.coordinator.threads import RECORD, exchange, exchanged, new_id
from groundline_tests.coordinator.workflow import NOBODY, TEXTS, Started, World, question

REVISION: Final = "ab" * 16
TEXT: Final = "Größe. Alpha. Beta. Gamma."


def chunk(number: int, text: str, **fields: Any) -> passage_pb2.Chunk:
    start = TEXT.index(text)
    return make_chunk(
        number,
        text,
        chunk_index=number,
        start_offset=start,
        end_offset=start + len(text),
        revision=REVISION,
        **fields,
    )


@pytest.fixture
def world() -> World:
    """A document of three chunks, of which the second touches the first."""
    world = World(FakeRetriever(found((1, 0.9), (3, 0.8), (2, 0.5))))
    world.retriever.chunks = {1: chunk(1, "Alpha. "), 2: chunk(2, "Beta."), 3: chunk(3, "Gamma.")}
    world.retriever.revisions[REVISION] = TEXT
    return world


async def evidence(world: World, thread_id: str, message_id: str = "") -> Mapping[str, Any]:
    """Return what verified evidence holds."""
    signer = FakeSigner()
    service = EvidenceService(world.threads, world.retriever, signer)
    request = pb.GetEvidenceRequest(thread_id=thread_id, message_id=message_id)
    return verify(await service.get(NOBODY, request), [signer.key.jwk()]).values


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_evidence_says_how_an_answer_came_about(world: World) -> None:
    asked = question(
        collection_ids=["docs"],
        filter={"year": 2024},
        effort=options_pb2.EFFORT_BALANCED,
        additional_context="secret",
    )
    asked.query = "What is alpha and what is beta?"
    world.generator.rewrites[asked.query] = rewrite("What are alpha and beta?", "alpha", "beta")
    await world.chat(asked)

    signed = await evidence(world, world.only(Started).thread_id)

    assert signed["format"] == "groundline/evidence/1"
    [answer] = signed["answers"]
    assert answer["question"]["content"] == asked.query
    assert answer["answer"]["content"] == "Alpha it is. [1]"
    record = answer["record"]
    assert record["queries"] == ["What are alpha and beta?", "alpha", "beta"] == world.retriever.queries[0]
    assert record["collectionIds"] == ["docs"]
    assert record["filter"] == {"year": 2024}
    assert record["hasAdditionalContext"]
    assert "secret" not in json.dumps(signed)
    assert record["options"]["effort"] == "EFFORT_BALANCED"


async def test_each_passage_is_the_text_of_its_revision_that_was_served(world: World) -> None:
    await world.chat(question())

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]

    assert [each["text"] for each in answer["passages"]] == ["Alpha. ", "Gamma.", "Beta."]
    assert all(each["isAsServed"] for each in answer["passages"])
    served = world.generator.calls[-1].passages
    assert [each["sha256"] for each in answer["passages"]] == [sha256(each.text) for each in served]


async def test_neighbours_that_were_served_are_part_of_the_passage(world: World) -> None:
    passage = world.retriever.response.passages[0]
    passage.chunk.CopyFrom(chunk(1, "Alpha. "))
    passage.adjacent_chunks.extend([chunk(2, "Beta."), chunk(3, "Gamma.")])
    await world.chat(question())

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]

    # A space lies between the last two, so they do not touch.
    assert answer["record"]["passages"][0]["spans"] == [
        {"startOffset": 7, "endOffset": 19},
        {"startOffset": 20, "endOffset": 26},
    ]
    assert answer["passages"][0]["text"] == "Alpha. Beta.\nGamma."
    assert answer["passages"][0]["isAsServed"]


async def test_a_text_that_is_not_the_one_that_was_served_is_told(world: World) -> None:
    await world.chat(question())
    world.retriever.gone.update(TEXTS)
    world.retriever.revisions[REVISION] = TEXT.replace("Alpha", "Omega")

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]

    assert not answer["passages"][0]["isAsServed"]
    assert answer["passages"][1]["isAsServed"]


async def test_a_revision_that_is_not_kept_leaves_the_passage_without_text(world: World) -> None:
    await world.chat(question())
    world.retriever.gone.update(TEXTS)
    world.retriever.revisions.clear()

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]

    assert [each["text"] + each["sha256"] for each in answer["passages"]] == ["", "", ""]
    assert not any(each["isAsServed"] for each in answer["passages"])
    # Their hashes are known still.
    assert answer["record"]["passages"][0]["sha256"] == sha256("Alpha. ")


async def test_chunks_of_the_revision_that_was_cited_take_no_reading_of_its_whole_text(world: World) -> None:
    await world.chat(question())
    world.retriever.revisions.clear()

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]
    assert all(each["isAsServed"] for each in answer["passages"])

    # Chunks of another revision are none of it.
    for number in TEXTS:
        world.retriever.chunks[number].revision = "cd" * 16
    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]
    assert not any(each["text"] for each in answer["passages"])


async def test_of_a_withheld_answer_there_is_nothing_but_that_it_is_withheld(world: World) -> None:
    await world.chat(question())
    world.threads.hidden.add(world.retriever.chunks[1].document_id)

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]

    assert answer["answer"]["isWithheld"]
    assert "record" not in answer
    assert (answer["answer"]["content"], answer["passages"]) == ("", [])


async def test_checks_and_degradations_are_part_of_it(world: World) -> None:
    world.generator.issues = [chat_pb2.ValidationIssue(reason=error_pb2.UNSUPPORTED_SENTENCE, message="One.")]
    await world.chat(question())

    [answer] = (await evidence(world, world.only(Started).thread_id))["answers"]

    assert answer["record"]["validation"]["issues"] == [{"reason": "UNSUPPORTED_SENTENCE", "message": "One."}]


async def test_an_answer_is_named_by_its_message(world: World) -> None:
    key, first, second = new_id(), exchange("one?", "One."), exchange("two?", "Two.")
    for each in (first, second):
        await exchanged(world.threads, "", key, each)

    signed = await evidence(world, key, second[1].message_id)

    assert [each["answer"]["content"] for each in signed["answers"]] == ["Two."]
    assert [each["question"]["content"] for each in signed["answers"]] == ["two?"]
    assert signed["answers"][0]["record"]["promptVersion"] == RECORD.prompt_version
    assert len((await evidence(world, key))["answers"]) == 2
    with pytest.raises(NotFoundError) as failure:
        await evidence(world, key, new_id())
    assert failure.value.reason == "MESSAGE_NOT_FOUND"


async def test_a_thread_of_more_answers_than_one_evidence_holds_is_asked_for_one(world: World) -> None:
    key = new_id()
    exchanges = [exchange(f"{number}?") for number in range(MAX_ANSWERS + 1)]
    for each in exchanges:
        await exchanged(world.threads, "", key, each)

    with pytest.raises(FailedPreconditionError) as failure:
        await evidence(world, key)

    assert failure.value.reason == "EVIDENCE_TOO_LARGE"
    assert len((await evidence(world, key, exchanges[0][1].message_id))["answers"]) == 1
