import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import coordinator_service_pb2 as pb
from groundline.v1 import error_pb2, options_pb2, passage_pb2, verification_pb2
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_coordinator.service.verifying import VerificationService, VerifyEvent, VerifyLimits
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_runtime.serving.admission import Admission
from groundline_tests.coordinator.fakes import (
    FakeCatalog,
    FakeGenerator,
    FakeQuotas,
    FakeRetriever,
    FakeThreads,
    collection,
    found,
    judged,
    make_chunk,
)

VERDICT_SUPPORTED = verification_pb2.VERDICT_SUPPORTED
VERDICT_REFUTED = verification_pb2.VERDICT_REFUTED
VERDICT_NOT_FOUND = verification_pb2.VERDICT_NOT_FOUND
VerifiedClaim, VerifyCompleted = verification_pb2.VerifiedClaim, verification_pb2.VerifyCompleted
VerifyStarted = verification_pb2.VerifyStarted
NOBODY = Caller()
ANN = Caller(("user:ann",))
TEXT = "Alpha is one. Beta is two. Gamma is three."


class World:
    """The workflow among fakes: a collection with two passages."""

    def __init__(self, limits: QuotaLimits | None = None) -> None:
        self.events: list[VerifyEvent] = []
        self.retriever = FakeRetriever(found((1, 0.9), (2, 0.8)))
        self.retriever.chunks = {
            1: make_chunk(1, "Alpha: one. Beta: 2.", start_offset=100),
            2: make_chunk(2, "More."),
        }
        self.generator = FakeGenerator()
        self.catalog = FakeCatalog()
        self.catalog.add(collection("docs", generation={"model": "m"}))
        self.used = FakeQuotas(FakeThreads())
        self.service = VerificationService(
            retriever=self.retriever,
            generator=self.generator,
            catalog=self.catalog,
            quotas=CallerQuotas(self.used, limits or QuotaLimits()),
            limits=VerifyLimits(10.0, 10.0),
        )

    async def verify(self, caller: Caller = NOBODY, text: str = TEXT, **fields: Any) -> Sequence[VerifyEvent]:
        self.events.clear()
        begun = await self.service.begin(caller, pb.VerifyRequest(text=text, **fields))
        async for event in self.service.verify(begun):
            self.events.append(event)
        return self.events


async def test_a_collection_that_the_caller_may_not_read_does_not_exist() -> None:
    world = World()
    world.catalog.add(collection("staff"), readers=["group:staff"])
    for name in ("staff", "nowhere"):
        with pytest.raises(NotFoundError):
            await world.verify(ANN, collection_ids=[name])
    assert world.retriever.calls == []


async def test_options_beyond_a_collections_limits_are_refused() -> None:
    world = World()
    world.catalog.add(collection("strict", generation_limits={"max_top_k": 3}))
    options = options_pb2.SearchOptions(rerank=options_pb2.RerankOptions(top_k=4))
    with pytest.raises(InvalidArgumentError) as failure:
        await world.verify(collection_ids=["strict"], options=options)
    assert [each.field for each in failure.value.violations] == ["options.rerank.top_k"]


async def test_tokens_count_as_those_of_answers_and_end_what_is_left() -> None:
    world = World(QuotaLimits(tokens=10))
    await world.verify(ANN)
    await world.service.settle()
    assert (await world.used.used(ANN.owner)).tokens == 15
    with pytest.raises(ResourceExhaustedError) as failure:
        await world.verify(ANN)
    assert failure.value.metadata["quota"] == "tokens"


async def test_what_was_judged_until_a_failure_is_paid_for() -> None:
    world = World(QuotaLimits(tokens=100))
    world.generator.verdicts["Gamma is three."] = UnavailableError("DOWN", "down")
    with pytest.raises(UnavailableError):
        await world.verify(ANN)
    await world.service.settle()
    assert (await world.used.used(ANN.owner)).tokens == 10


async def test_a_search_that_fails_ends_the_stream_with_its_error() -> None:
    world = World()
    world.retriever.by_query["Beta is two."] = UnavailableError("DOWN", "down")
    with pytest.raises(UnavailableError):
        await world.verify()
    assert [type(event) for event in world.events] == [VerifyStarted, VerifiedClaim]


async def test_a_time_that_cannot_be_searched_is_named_as_a_search_names_it() -> None:
    world = World()
    refusal = InvalidArgumentError([FieldViolation("as_of", "is in the future")])
    world.retriever.by_query["Alpha is one."] = refusal
    moment = Timestamp()
    moment.FromJsonString("2026-03-01T00:00:00Z")
    with pytest.raises(InvalidArgumentError) as failure:
        await world.verify(text="Alpha is one.", as_of=moment)
    assert failure.value.violations == refusal.violations
    [call] = world.retriever.calls
    assert call.as_of == moment


async def test_each_claim_is_searched_for_and_judged_by_what_was_found() -> None:
    world = World()
    world.generator.verdicts = {
        "Alpha is one.": judged(VERDICT_SUPPORTED, (1, 0, 11)),
        "Beta is two.": judged(VERDICT_REFUTED, (1, 12, 20), (9, 0, 1)),
    }
    world.retriever.response.usage.embedding_tokens = 4

    started, alpha, beta, gamma, completed = await world.verify(collection_ids=["docs", "docs"])

    assert isinstance(started, VerifyStarted)
    assert started.claim_count == 3
    assert sorted(world.retriever.queries) == [["Alpha is one."], ["Beta is two."], ["Gamma is three."]]
    assert all(list(call.collection_ids) == ["docs"] for call in world.retriever.calls)
    assert all(call.options.retrieval.adjacent_chunks == 0 for call in world.retriever.calls)
    assert not any(call.HasField("as_of") for call in world.retriever.calls)
    assert {call.model for call in world.generator.judge_calls} == {"m"}
    assert isinstance(alpha, VerifiedClaim)
    assert isinstance(beta, VerifiedClaim)
    assert isinstance(gamma, VerifiedClaim)
    assert [(each.number, each.text, each.verdict) for each in (alpha, beta, gamma)] == [
        (1, "Alpha is one.", VERDICT_SUPPORTED),
        (2, "Beta is two.", VERDICT_REFUTED),
        (3, "Gamma is three.", VERDICT_NOT_FOUND),
    ]
    assert (beta.start_offset, beta.end_offset, beta.probability) == (14, 26, 0.75)
    [evidence] = beta.evidence
    assert (evidence.start_offset, evidence.end_offset, evidence.text) == (112, 120, "Beta: 2.")
    assert (evidence.source.number, evidence.source.chunk_id) == (1, "1")
    assert isinstance(completed, VerifyCompleted)
    assert (completed.supported_count, completed.refuted_count, completed.not_found_count) == (1, 1, 1)
    assert (completed.usage.prompt_tokens, completed.model) == (9, "fake")
    assert completed.usage.embedding_tokens == 3 * 4, "each claim is searched for"
    assert [(each.model, each.claim_count) for each in completed.judged_by] == [("fake", 3)]
    assert list(completed.degraded) == []


async def test_what_search_and_judge_lack_is_declared_once() -> None:
    world = World()
    keyword = passage_pb2.Degradation(component=passage_pb2.COMPONENT_KEYWORD_ARM)
    judge = passage_pb2.Degradation(
        component=passage_pb2.COMPONENT_VALIDATION, reason=error_pb2.JUDGE_UNAVAILABLE
    )
    world.retriever.response = found((1, 0.9), degraded=[keyword])
    world.generator.verdicts["Alpha is one."] = judged(VERDICT_SUPPORTED, degraded=[judge])
    *_, completed = await world.verify()
    assert isinstance(completed, VerifyCompleted)
    assert sorted(each.component for each in completed.degraded) == sorted(
        (passage_pb2.COMPONENT_KEYWORD_ARM, passage_pb2.COMPONENT_VALIDATION)
    )


async def test_who_may_read_nothing_gets_verdicts_without_a_search() -> None:
    world = World()
    world.catalog.add(collection("docs"), readers=["group:staff"])
    events = await world.verify(ANN)
    assert len(events) == 5
    assert world.retriever.calls == []
    assert all(not call.passages for call in world.generator.judge_calls)


async def test_a_text_without_claims_is_complete_at_once() -> None:
    started, completed = await World().verify(text="no claim")
    assert isinstance(started, VerifyStarted)
    assert isinstance(completed, VerifyCompleted)
    assert (started.claim_count, completed.model) == (0, "")


async def test_a_few_claims_are_worked_on_at_a_time_however_many_there_are() -> None:
    world = World()
    world.retriever.hangs = True
    begun = await world.service.begin(NOBODY, pb.VerifyRequest(text="It is so. " * 100))
    async with aclosing(world.service.verify(begun)) as events:
        await anext(events)
        following = asyncio.ensure_future(anext(events))
        await world.retriever.reached.wait()
        await asyncio.sleep(0)
        assert len(world.retriever.calls) == 4
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following


async def test_closing_the_stream_stops_the_work_on_what_comes_next() -> None:
    world = World()
    begun = await world.service.begin(NOBODY, pb.VerifyRequest(text="It is so. " * 100))
    async with aclosing(world.service.verify(begun)) as events:
        await anext(events)
        await anext(events)
        world.retriever.hangs = True
        await anext(events)
    assert len(world.retriever.calls) <= 6


async def test_a_verification_holds_no_place_while_it_goes_on() -> None:
    world, admission = World(), Admission()
    begun = await world.service.begin(NOBODY, pb.VerifyRequest(text=TEXT))
    async with admission.place("Verify"), aclosing(world.service.verify(begun)) as events:
        await anext(events)
        assert admission.under_way == 0


async def test_what_it_asks_of_others_belongs_to_a_request_that_has_begun() -> None:
    world = World()
    await world.verify()
    assert world.retriever.begun == [True, True, True]
