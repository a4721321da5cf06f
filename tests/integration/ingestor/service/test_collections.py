from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from groundline.v1 import error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_extraction.documents import GivenDocument
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from groundline_tests.ingestor.messages import settings_of
from groundline_tests.ingestor.services import ANN, ANYBODY, BOB, STAFF, Services, change, new


async def test_another_model_than_the_running_one_is_refused_by_both_names(services: Services) -> None:
    with pytest.raises(FailedPreconditionError) as raised:
        await services.collections.create(ANYBODY, new(settings={"embedding": {"model": "gemini-embedding"}}))
    assert raised.value.reason == "EMBEDDING_MODEL_MISMATCH"
    assert "gemini-embedding" in raised.value.message
    assert services.embedder.model in raised.value.message


async def test_contexts_by_a_model_take_a_generator(services: Services) -> None:
    settings = {"contextualization": {"mode": "CONTEXTUALIZATION_MODE_LLM"}}
    await services.collections.create(ANYBODY, new(settings=settings))
    with pytest.raises(FailedPreconditionError) as raised:
        await services.ingest(GivenDocument("text"))
    assert raised.value.reason == "GENERATOR_NOT_CONFIGURED"


async def test_settings_that_do_not_fit_each_other_are_refused_also_by_a_change(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkOverlap": 150}}))
    with pytest.raises(InvalidArgumentError) as raised:
        await services.collections.update(ANYBODY, change(chunking={"chunkSize": 200}))
    assert [violation.field for violation in raised.value.violations] == ["settings.chunking.chunk_overlap"]


async def test_a_request_id_opens_no_other_collection_and_is_not_known_to_others(services: Services) -> None:
    await services.collections.create(ANN, new("private", readers=("user:ann",), request_id="r"))
    with pytest.raises(AlreadyExistsError) as raised:
        await services.collections.create(ANN, new("other", request_id="r"))
    assert raised.value.reason == "REQUEST_ID_USED"
    for request_id in ("r", ""):
        with pytest.raises(AlreadyExistsError) as raised:
            await services.collections.create(BOB, new("private", request_id=request_id))
        assert raised.value.reason == "COLLECTION_EXISTS"
    assert (await services.collections.create(BOB, new("other", request_id="r"))).collection_id == "other"


async def test_a_request_id_is_its_callers_own_and_swallows_no_others_request(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    first, second = [
        (await services.ingest_job(GivenDocument("text", uri=uri), caller=caller, request_id="r"))[0]
        for caller, uri in ((ANN, "a"), (BOB, "b"))
    ]
    assert first.job_id != second.job_id
    repeated, _ = await services.ingest_job(GivenDocument("more", uri="c"), caller=ANN, request_id="r")
    assert repeated.job_id == first.job_id

    for caller, uri in ((ANN, "a"), (BOB, "b")):
        request = pb.DeleteDocumentsRequest(collection_id="docs", request_id="r")
        request.filter.update({"$uri": uri})
        assert await services.documents.delete_selected(caller, request) == 1


async def test_a_caller_without_principals_says_who_may_use_its_collection(services: Services) -> None:
    request = pb.CreateCollectionRequest(
        collection_id="docs", settings=settings_of({"access": {"writers": ["user:ann"]}})
    )
    with pytest.raises(InvalidArgumentError) as raised:
        await services.collections.create(ANYBODY, request)
    assert [violation.field for violation in raised.value.violations] == [
        "settings.access.readers",
        "settings.access.admins",
    ]


async def test_a_collection_is_its_creators_unless_others_are_named(services: Services) -> None:
    created = await services.collections.create(STAFF, pb.CreateCollectionRequest(collection_id="docs"))
    access = created.settings.access
    assert access.readers == access.writers == access.admins == ["user:carl"]
    for stranger in (ANYBODY, ANN, Caller(("group:staff",))):
        with pytest.raises(NotFoundError):
            await services.collections.get(stranger, "docs")
    shared = await services.collections.update(STAFF, change(access={"readers": ["*", "user:ann"]}))
    assert shared.settings.access.readers == ["*"]
    assert (await services.collections.get(ANYBODY, "docs")).collection_id == "docs"
    taken_back = pb.UpdateCollectionRequest(
        collection_id="docs", update_mask=FieldMask(paths=["settings.access"])
    )
    assert (await services.collections.update(STAFF, taken_back)).settings.access == access


@pytest.mark.parametrize(
    ("access", "wrong"),
    [
        ({"readers": ["user:bob"], "writers": ["*"]}, ["readers"]),
        ({"readers": ["*"], "admins": ["*"]}, ["writers"]),
        ({"writers": ["*"], "admins": ["*"]}, ["readers"]),
        ({"admins": ["*", "user:ann"]}, ["writers"]),
    ],
)
async def test_what_everyone_may_write_cannot_be_kept_from_readers(
    services: Services, access: dict[str, Any], wrong: list[str]
) -> None:
    request = pb.CreateCollectionRequest(collection_id="docs", settings=settings_of({"access": access}))
    with pytest.raises(InvalidArgumentError) as raised:
        await services.collections.create(ANN, request)
    assert [one.field.removeprefix("settings.access.") for one in raised.value.violations] == wrong
    await services.collections.create(ANN, new())
    restricting = change(access={"readers": ["user:ann"]})
    with pytest.raises(InvalidArgumentError):
        await services.collections.update(ANN, restricting)


async def test_administering_is_a_right_of_its_own(services: Services) -> None:
    access = {"readers": ["user:bob"], "writers": ["user:ann"], "admins": ["user:carl"]}
    request = pb.CreateCollectionRequest(collection_id="docs", settings=settings_of({"access": access}))
    await services.collections.create(STAFF, request)
    for caller in (ANN, BOB):
        for call in (
            services.collections.update(caller, change(name="mine")),
            services.collections.update(caller, change(access={"admins": ["user:ann", "user:bob"]})),
            services.collections.delete(caller, "docs"),
            services.reindex.begin(caller, pb.ReindexCollectionRequest(collection_id="docs")),
        ):
            with pytest.raises(PermissionDeniedError) as raised:
                await call
            assert raised.value.reason == "COLLECTION_NOT_ADMINISTRABLE"
    assert await services.ingest(GivenDocument("text"), caller=ANN)
    # An admin could give itself the others.
    assert await services.ingest(GivenDocument("text"), caller=STAFF)
    assert (await services.collections.update(STAFF, change(name="ours"))).name == "ours"
    await services.collections.delete(STAFF, "docs")


async def test_who_hands_in_again_what_others_may_read_is_told_which_key_it_takes(services: Services) -> None:
    """As `groundline sync` does with a file whose description names none of the key's principals."""
    await services.collections.create(ANYBODY, new())
    restricted = GivenDocument("secret", uri="plan.md", allowed_principals=("user:ann",))
    await services.ingest(restricted, caller=BOB)
    _, [refused] = await services.ingest_job(restricted, caller=BOB)
    assert refused.failure.reason == error_pb2.DOCUMENT_NOT_WRITABLE
    assert "with a key of one of user:ann" in refused.failure.message
    _, [unchanged] = await services.ingest_job(restricted, caller=ANN)
    assert unchanged.outcome == job_pb2.INGESTION_OUTCOME_UNCHANGED


@pytest.mark.parametrize("settings", [{"embedding": {"model": "other"}}, {"lexical": {"language": "german"}}])
async def test_what_needs_a_new_index_is_not_changed(services: Services, settings: dict[str, Any]) -> None:
    await services.collections.create(ANYBODY, new())
    with pytest.raises(FailedPreconditionError) as raised:
        await services.collections.update(ANYBODY, change(**settings))
    assert raised.value.reason == "REINDEX_REQUIRED"


async def test_what_may_not_be_read_does_not_exist(services: Services) -> None:
    await services.collections.create(ANN, new(readers=("user:ann",)))
    for call in (
        services.collections.get(BOB, "docs"),
        services.collections.update(BOB, change(name="x")),
        services.collections.delete(BOB, "docs"),
        services.ingest(GivenDocument("text"), caller=BOB),
        services.documents.list(BOB, pb.ListDocumentsRequest(collection_id="docs")),
        services.jobs.list(BOB, pb.ListJobsRequest(collection_id="docs")),
    ):
        with pytest.raises(NotFoundError) as raised:
            await call
        assert raised.value.reason == "COLLECTION_NOT_FOUND"


def selecting(*, dry_run: bool) -> pb.DeleteDocumentsRequest:
    request = pb.DeleteDocumentsRequest(collection_id="docs", dry_run=dry_run)
    request.filter.update({"$source_type": "file"})
    return request


async def test_what_may_only_be_read_may_not_be_changed(services: Services) -> None:
    await services.collections.create(ANN, new(writers=("user:ann",)))
    [item] = await services.ingest(GivenDocument("text"), caller=ANN)
    assert item.document_id
    for call in (
        services.collections.update(BOB, change(name="x")),
        services.collections.delete(BOB, "docs"),
        services.ingest(GivenDocument("text"), caller=BOB),
        services.documents.delete(BOB, "docs", item.document_id),
        services.documents.delete_selected(BOB, selecting(dry_run=False)),
        services.documents.delete_selected(BOB, selecting(dry_run=True)),
    ):
        with pytest.raises(PermissionDeniedError):
            await call
    assert (await services.collections.get(BOB, "docs")).document_count == 1


async def test_a_dry_run_tells_what_would_become_of_a_collection_and_leaves_it(services: Services) -> None:
    asked = new(settings={"rerank": {"topK": 5}})
    asked.dry_run = True
    planned = await services.collections.create(ANN, asked)
    assert planned.settings.embedding.model == services.embedder.model
    with pytest.raises(NotFoundError):
        await services.collections.get(ANN, "docs")

    created = await services.collections.create(ANN, new(settings={"rerank": {"topK": 5}}))
    with pytest.raises(AlreadyExistsError):
        await services.collections.create(ANN, asked)
    preview = change(rerank={"topK": 6})
    preview.dry_run = True
    assert (await services.collections.update(ANN, preview)).settings.rerank.top_k == 6
    assert await services.collections.get(ANN, "docs") == created
    wrong = change(lexical={"language": "german"})
    wrong.dry_run = True
    with pytest.raises(FailedPreconditionError):
        await services.collections.update(ANN, wrong)


async def test_a_change_made_for_another_state_of_a_collection_is_refused(services: Services) -> None:
    before = await services.collections.create(ANN, new())
    mine, theirs = change(rerank={"topK": 6}), change("Theirs")
    mine.etag = theirs.etag = before.etag
    after = await services.collections.update(ANN, theirs)
    assert after.etag != before.etag
    with pytest.raises(AbortedError) as raised:
        await services.collections.update(ANN, mine)
    assert raised.value.reason == "COLLECTION_CHANGED"
    mine.etag = after.etag
    found = await services.collections.update(ANN, mine)
    assert (found.name, found.settings.rerank.top_k) == ("Theirs", 6)
    assert found.etag == (await services.collections.get(ANN, "docs")).etag
