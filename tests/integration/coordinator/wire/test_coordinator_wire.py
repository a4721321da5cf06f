import asyncio
import uuid
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from groundline.v1 import chat_pb2, options_pb2, passage_pb2, quota_pb2, thread_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_runtime.context import LAST_EVENT_ID_KEY, TRANSCODED_KEY, Caller, acting_as
from groundline_runtime.errors import UnavailableError
from groundline_runtime.status import from_rpc_error
from groundline_tests.coordinator.wire import Stub, chat, kinds


async def test_a_rewritten_question_is_shown_and_searched(coordinator: Stub, backends: Any) -> None:
    backends.standalone_query, backends.sub_queries = "Compare ports.", ("Port of a?", "Port of b?")
    events, error = await chat(coordinator, query="Compare a and b.")
    assert error is None
    shown = [event.status for event in events if event.HasField("status")]
    assert [status.stage for status in shown[:2]] == [
        passage_pb2.STAGE_REWRITING,
        passage_pb2.STAGE_RETRIEVING,
    ]
    assert (shown[1].rewritten_query, list(shown[1].sub_queries)) == (
        "Compare ports.",
        ["Port of a?", "Port of b?"],
    )
    assert shown[1].rewriting_model == "rules"
    assert backends.queries == [["Compare ports.", "Port of a?", "Port of b?"]]
    assert backends.requests["generator"].query == "Compare ports."
    assert events[-1].completed.usage == chat_pb2.Usage(prompt_tokens=25, cached_tokens=4, output_tokens=8)
    answer = await coordinator.Answer(pb.AnswerRequest(query="Compare a and b.", collection_ids=["docs"]))
    assert (answer.rewritten_query, list(answer.sub_queries), answer.rewriting_model) == (
        "Compare ports.",
        ["Port of a?", "Port of b?"],
        "rules",
    )


async def test_a_thorough_answer_searches_for_what_is_missing(coordinator: Stub, backends: Any) -> None:
    backends.missing = "who wrote it"
    events, error = await chat(coordinator, query="Which port?", options={"effort": "EFFORT_THOROUGH"})
    assert error is None
    assert backends.queries == [["Which port?"], ["Which port?", "who wrote it"]]
    shown = [event.status for event in events if event.HasField("status")]
    assert [(each.stage, each.missing) for each in shown[:3]] == [
        (passage_pb2.STAGE_RETRIEVING, ""),
        (passage_pb2.STAGE_READING, ""),
        (passage_pb2.STAGE_RETRIEVING, "who wrote it"),
    ]
    assert [each.stage for each in events[-1].completed.timings].count(passage_pb2.STAGE_READING) == 2


async def test_a_stream_that_broke_off_goes_on_after_its_last_event(coordinator: Stub) -> None:
    request = pb.ChatRequest(query="Which port?", collection_ids=["docs"], request_id="resumed")
    first = [event async for event in coordinator.Chat(request)]
    assert [event.sequence for event in first] == list(range(1, len(first) + 1))
    assert len({event.event_id for event in first}) == len(first)
    broke_off = next(event for event in first if event.HasField("delta"))

    metadata = ((LAST_EVENT_ID_KEY, broke_off.event_id),)
    rest = [event async for event in coordinator.Chat(request, metadata=metadata)]

    text = "".join(event.delta.text for event in [broke_off, *rest])
    assert text == "".join(event.delta.text for event in first)
    assert kinds(rest)[-1] == "completed"
    assert "started" not in kinds(rest)
    assert rest[0].sequence == broke_off.sequence + 1


@pytest.mark.parametrize(
    ("metadata", "field"),
    [((), "options.rerank.top_k"), (((TRANSCODED_KEY, "true"),), "options.rerank.topK")],
)
async def test_a_wrong_field_is_named_as_it_was_spelt(coordinator: Stub, metadata: Any, field: str) -> None:
    options = options_pb2.ChatOptions(rerank=options_pb2.RerankOptions(top_k=101))
    request = pb.ChatRequest(query="q", options=options)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await coordinator.Chat(request, metadata=metadata).read()
    error = from_rpc_error(failure.value)
    assert [violation.field for violation in error.violations] == [field]
    assert error.message.startswith(f"{field}: ")


async def test_a_reader_that_stops_holds_the_generator_back_and_loses_nothing(
    coordinator: Stub, backends: Any
) -> None:
    backends.pieces = tuple(f"word{n:04} " * 1000 for n in range(3000))
    call = coordinator.Chat(pb.ChatRequest(query="q", collection_ids=["docs"]))
    first = await call.read()
    assert isinstance(first, pb.ChatResponse)
    assert first.HasField("started")
    # Nobody reads: flow control and the bounded buffer hold the generator back.
    before = -1
    while before != backends.sent or not backends.sent:
        before = backends.sent
        for _ in range(2000):
            await asyncio.sleep(0)
    assert backends.sent < len(backends.pieces)
    deltas = []
    while isinstance(event := await call.read(), pb.ChatResponse):
        deltas.append(event.delta.text)
    assert "".join(deltas) == "".join(backends.pieces)


async def test_the_stream_tells_what_happens(coordinator: Stub, backends: Any) -> None:
    events, error = await chat(coordinator, additionalContext="page 3")
    assert error is None
    assert [k for i, k in enumerate(kinds(events)) if k != "delta" or kinds(events)[i - 1] != "delta"] == [
        "started",
        "status",
        "sources",
        "status",
        "delta",
        "completed",
    ]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.status.stage for event in events if event.HasField("status")] == [
        passage_pb2.STAGE_RETRIEVING,
        passage_pb2.STAGE_GENERATING,
    ]
    uuid.UUID(events[0].started.thread_id)
    uuid.UUID(events[0].started.message_id)
    (sources,) = [event.sources.sources for event in events if event.HasField("sources")]
    assert [(s.number, s.chunk_id, s.title) for s in sources] == [
        (1, "1", "Operations"),
        (2, "2", "Operations"),
    ]
    assert sources[0].metadata["team"] == "ops"
    completed = events[-1].completed
    assert completed.finish_reason == chat_pb2.FINISH_REASON_STOP
    assert completed.usage == chat_pb2.Usage(prompt_tokens=20, cached_tokens=4, output_tokens=6)
    assert completed.citations[0].chunk_id == "1"
    assert completed.validation.grounded
    assert completed.model == "scripted"
    assert not completed.degraded
    assert [timing.stage for timing in completed.timings] == [
        passage_pb2.STAGE_RETRIEVING,
        passage_pb2.STAGE_KEYWORD_SEARCH,
        passage_pb2.STAGE_RERANKING,
        passage_pb2.STAGE_GENERATING,
        passage_pb2.STAGE_FIRST_TOKEN,
    ]


async def test_services_are_asked_for_the_caller_in_the_deadline(coordinator: Stub, backends: Any) -> None:
    with acting_as(Caller(("user:alice", "group:staff"))):
        _, error = await chat(
            coordinator,
            collectionIds=["docs", "staff"],
            options={
                "retrieval": {"keywordLimit": 7},
                "rerank": {"topK": 3},
                "generation": {"temperature": 0},
            },
        )
    assert error is None
    assert backends.principals["retriever"] == "user:alice,group:staff"
    assert list(backends.requests["retriever"].collection_ids) == ["docs", "staff"]
    assert backends.requests["retriever"].options.retrieval.keyword_limit == 7
    assert not backends.requests["retriever"].options.retrieval.HasField("semantic_limit")
    assert backends.requests["retriever"].options.rerank.top_k == 3
    assert backends.requests["generator"].options.HasField("temperature")
    # The retriever has 60 % of the 20 seconds, the generator all but what storing needs; the wire rounds up.
    assert backends.time_left["retriever"] < 13
    assert backends.time_left["generator"] < 19


async def test_a_filter_reaches_the_retriever_unless_it_is_wrong(coordinator: Stub, backends: Any) -> None:
    conditions = {"year": {"$gte": 2024}, "$not": {"tags": {"$contains": "draft"}}}
    await chat(coordinator, filter=conditions)
    assert MessageToDict(backends.requests["retriever"].filter) == conditions
    events, error = await chat(coordinator, filter={"year": {"$above": 1}})
    assert not events
    assert error is not None
    assert [violation.field for violation in from_rpc_error(error).violations] == ["filter.year.$above"]


async def test_a_single_collections_settings_are_the_defaults(coordinator: Stub, backends: Any) -> None:
    await chat(coordinator)
    assert backends.requests["generator"].options.model == "m"
    await chat(coordinator, collectionIds=[], options={"generation": {"model": "n"}})
    assert backends.requests["generator"].options.model == "n"
    assert list(backends.requests["retriever"].collection_ids) == []


async def test_a_thread_goes_on_and_is_kept(coordinator: Stub, backends: Any) -> None:
    with acting_as(Caller(("user:carol",))):
        events, _ = await chat(coordinator)
        thread_id = events[0].started.thread_id
        again, error = await chat(coordinator, threadId=thread_id, query="And at night?")
        assert error is None
        assert again[0].started.thread_id == thread_id
        history = backends.requests["generator"].chat_history
        assert [(m.role, m.content) for m in history] == [
            (chat_pb2.ChatMessage.USER, "Which port?"),
            (chat_pb2.ChatMessage.ASSISTANT, "It is 8080. [1]"),
        ]
        thread = await coordinator.GetThread(pb.GetThreadRequest(thread_id=thread_id, page_size=3))
        assert [m.role for m in thread.messages] == [
            chat_pb2.ChatMessage.USER,
            chat_pb2.ChatMessage.ASSISTANT,
            chat_pb2.ChatMessage.USER,
        ]
        assert thread.messages[1].message_id == events[0].started.message_id
        assert thread.messages[1].sources[0].metadata["year"] == 2026
        assert thread.thread.title == "Which port?"
        rest = await coordinator.GetThread(
            pb.GetThreadRequest(thread_id=thread_id, page_token=thread.next_page_token)
        )
        assert [m.role for m in rest.messages] == [chat_pb2.ChatMessage.ASSISTANT]
        listed = await coordinator.ListThreads(pb.ListThreadsRequest())
        assert [t.thread_id for t in listed.threads] == [thread_id]
        rated = await coordinator.RateAnswer(
            pb.RateAnswerRequest(
                thread_id=thread_id,
                message_id=thread.messages[1].message_id,
                feedback=thread_pb2.Feedback(rating=thread_pb2.Feedback.RATING_GOOD),
            )
        )
        whole = await coordinator.GetThread(pb.GetThreadRequest(thread_id=thread_id))
        assert whole.messages[1].feedback == rated.feedback
        updated = await coordinator.UpdateThread(
            pb.UpdateThreadRequest(thread_id=thread_id, title="Ports", is_pinned=True)
        )
        assert (updated.thread.title, updated.thread.is_pinned) == ("Ports", True)
        with pytest.raises(grpc.aio.AioRpcError, match="title"):
            await coordinator.UpdateThread(pb.UpdateThreadRequest(thread_id=thread_id, title="x" * 121))
        used = await coordinator.GetQuotas(pb.GetQuotasRequest())
        assert [(each.quota, each.used, each.limit) for each in used.quotas] == [
            (quota_pb2.QUOTA_THREADS, 1, 10_000),
            (quota_pb2.QUOTA_ANSWERS, 0, 100),
        ]
        for wrong in ({"days": 63}, {"days": -1}, {"caller": "x" * 201}):
            with pytest.raises(grpc.aio.AioRpcError, match=next(iter(wrong))):
                await coordinator.GetUsage(pb.GetUsageRequest(**wrong))
        await coordinator.GetUsage(pb.GetUsageRequest(days=62))
        await coordinator.DeleteThread(pb.DeleteThreadRequest(thread_id=thread_id))
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await coordinator.DeleteThread(pb.DeleteThreadRequest(thread_id=thread_id))
        assert failure.value.code() is grpc.StatusCode.NOT_FOUND


async def test_models_are_those_that_the_generator_offers(coordinator: Stub, backends: Any) -> None:
    backends.error["choosing"] = UnavailableError("PROVIDER_UNAVAILABLE", "down for now")
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await coordinator.ListModels(pb.ListModelsRequest())
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    backends.error.clear()
    assert (await coordinator.ListModels(pb.ListModelsRequest())).models == ["scripted", "other"]
