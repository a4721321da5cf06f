from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import grpc
import pytest
from groundline.v1 import chat_pb2, collection_pb2, generator_service_pb2_grpc, options_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_contracts import limits_of
from groundline_generator.__main__ import wire
from groundline_generator.servicer import SERVICE
from groundline_generator.settings import GeneratorSettings
from groundline_runtime.channels import open_channel
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.status import from_rpc_error
from groundline_tests.generator.reader import write_classifier, write_reader
from groundline_tests.runtime import serve

type Stub = generator_service_pb2_grpc.GeneratorServiceAsyncStub

PASSAGES = [
    pb.NumberedPassage(number=1, text="Whales sing. They are large.", title="Whales", chunk_id="7"),
    pb.NumberedPassage(
        number=2, text="Paris is the capital of France.", title="Paris", chunk_id="8", similarity=0.7
    ),
]


@pytest.fixture(scope="module")
async def target() -> AsyncIterator[str]:
    async with wire(GeneratorSettings()) as application, serve(application) as address:
        yield address


@pytest.fixture(scope="module")
async def stub(target: str) -> AsyncIterator[Stub]:
    async with open_channel(target, service=SERVICE) as channel:
        yield generator_service_pb2_grpc.GeneratorServiceStub(channel)


async def generate(stub: Stub, request: pb.GenerateRequest) -> tuple[str, pb.GenerateCompleted]:
    events = [event async for event in stub.Generate(request)]
    assert all(event.WhichOneof("event") == "delta" for event in events[:-1])
    return "".join(event.delta.text for event in events[:-1]), events[-1].completed


async def test_a_reader_that_is_named_has_its_say(stub: Stub, tmp_path: Path) -> None:
    write_reader(tmp_path)  # it finds an answer wherever it finds "kiel"
    text = "From kiel to kiel by way of kiel: the ferry leaves at nine."
    asked = pb.GenerateRequest(
        query="When does the ferry with blue cabins and its own cinema leave?",
        passages=[pb.NumberedPassage(number=1, text=text, title="Ferry", chunk_id="1")],
    )
    _, by_rules = await generate(stub, asked)
    assert by_rules.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
    async with (
        wire(GeneratorSettings(reader_directory=tmp_path)) as application,
        serve(application) as address,
        open_channel(address, service=SERVICE) as channel,
    ):
        answer, by_both = await generate(generator_service_pb2_grpc.GeneratorServiceStub(channel), asked)
    assert by_both.finish_reason == chat_pb2.FINISH_REASON_STOP
    assert answer == f"{text} [1]"


@pytest.mark.parametrize("kind", ["pair", "token"])
async def test_a_model_of_anothers_judges_claims_that_rules_leave_open(tmp_path: Path, kind: str) -> None:
    write_classifier(tmp_path, kind)
    claims = [
        pb.Claim(text="Whales sing."),
        pb.Claim(text="There is a ferry to some other port."),
        pb.Claim(text="Here is where somebody goes."),
    ]
    passages = [*PASSAGES[:1], pb.NumberedPassage(number=3, text="A ship goes from kiel.", chunk_id="9")]
    async with (
        wire(GeneratorSettings(reader_directory=tmp_path)) as application,
        serve(application) as address,
        open_channel(address, service=SERVICE) as channel,
    ):
        stub = generator_service_pb2_grpc.GeneratorServiceStub(channel)
        judged = await stub.JudgeClaims(pb.JudgeClaimsRequest(claims=claims, passages=passages))
        answer, _ = await generate(stub, pb.GenerateRequest(query="Who sings?", passages=PASSAGES))
    assert judged.model == "reader"
    literal, ferry, somebody = judged.verdicts
    assert literal.verdict == ferry.verdict == verification_pb2.VERDICT_SUPPORTED
    assert [each.passage_number for each in ferry.evidence] == [3 if kind == "pair" else 1]
    # A model of tokens knows what is not borne out, but not whether it is refuted.
    refuted = verification_pb2.VERDICT_REFUTED if kind == "pair" else verification_pb2.VERDICT_NOT_FOUND
    assert somebody.verdict == refuted
    assert answer.startswith("Whales sing. [1]")


async def test_a_folder_without_a_reader_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError, match=r"GROUNDLINE_GENERATOR_READER_DIRECTORY: .* holds no"):
        async with wire(GeneratorSettings(reader_directory=tmp_path)):
            pass


async def test_a_wrong_request_names_every_field(stub: Stub) -> None:
    request = pb.GenerateRequest(
        # Python makes no integers of more than 4300 digits.
        passages=[
            pb.NumberedPassage(),
            *(pb.NumberedPassage(number=n, text="x", chunk_id="9" * 5000) for n in (1, 2)),
        ],
        chat_history=[chat_pb2.ChatMessage(content="x")],
    )
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await generate(stub, request)
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert {v.field for v in from_rpc_error(failure.value).violations} == {
        "query",
        "passages[0].number",
        "passages[0].text",
        "passages[1].chunk_id",
        "passages[2].chunk_id",
        "chat_history[0].role",
    }


async def test_a_passage_as_long_as_chunks_and_adjacent_ones_can_be_is_answered_from(stub: Stub) -> None:
    """The largest chunk_size with the most adjacent_chunks: 21 chunks, which need not overlap."""
    longest = limits_of(pb.NumberedPassage, "text").max_length
    size = limits_of(collection_pb2.ChunkingSettings, "chunk_size").maximum
    adjacent = limits_of(options_pb2.RetrievalOptions, "adjacent_chunks").maximum
    assert longest > size * (2 * adjacent + 1)
    text = "Whales sing.\n" * (longest // 13 - 10) + "Paris is the capital of France."
    passage = pb.NumberedPassage(number=1, text=text)
    answer, _ = await generate(
        stub, pb.GenerateRequest(query="What is the capital of France?", passages=[passage])
    )
    assert answer == "Paris is the capital of France. [1]"
    passage.text += "x" * 200
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await generate(stub, pb.GenerateRequest(query="q", passages=[passage]))
    assert [v.field for v in from_rpc_error(failure.value).violations] == ["passages[0].text"]


async def test_what_only_a_language_model_can_do_says_so(stub: Stub) -> None:
    chunks = pb.ContextualizeChunksRequest(document_text="d", chunk_texts=["c"])
    calls: tuple[Awaitable[object], ...] = (
        stub.ContextualizeChunks(chunks),
        stub.JudgeRelevance(pb.JudgeRelevanceRequest(query="q", passages=PASSAGES)),
        stub.PlanTable(pb.PlanTableRequest(question="q", tables=[pb.SampledTable()])),
    )
    for call in calls:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert from_rpc_error(failure.value).reason == "MODEL_NOT_AVAILABLE"


async def test_wrong_requests_name_every_field(stub: Stub) -> None:
    calls: list[tuple[Awaitable[object], list[str]]] = [
        (stub.RewriteQuery(pb.RewriteQueryRequest(max_sub_queries=11)), ["max_sub_queries", "query"]),
        (
            stub.ContextualizeChunks(pb.ContextualizeChunksRequest(chunk_texts=[""])),
            ["chunk_texts[0]", "document_text"],
        ),
        (
            stub.JudgeSufficiency(pb.JudgeSufficiencyRequest(max_queries=11, searched_queries=[""])),
            ["max_queries", "query", "searched_queries[0]"],
        ),
        (stub.JudgeClaims(pb.JudgeClaimsRequest(claims=[pb.Claim()])), ["claims[0].text"]),
        (stub.SplitClaims(pb.SplitClaimsRequest(text=" ")), ["text"]),
        (stub.SplitClaims(pb.SplitClaimsRequest(text="Whales sing. " * 501)), ["text"]),
    ]
    for call, fields in calls:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        assert sorted(v.field for v in from_rpc_error(failure.value).violations) == fields


async def test_without_a_model_rules_rewrite_and_say_so(stub: Stub) -> None:
    rewritten = await stub.RewriteQuery(
        pb.RewriteQueryRequest(
            query="And to Austria?",
            chat_history=[
                chat_pb2.ChatMessage(
                    role=chat_pb2.ChatMessage.USER, content="What does shipping to Germany cost?"
                )
            ],
        )
    )
    assert rewritten.standalone_query == "to Austria (shipping cost)?"
    assert rewritten.model == "rules"
    assert rewritten.usage == chat_pb2.Usage()


async def test_without_a_model_rules_tell_what_is_missing_and_say_so(stub: Stub) -> None:
    judged = await stub.JudgeSufficiency(
        pb.JudgeSufficiencyRequest(query="Who recorded the whales that sing?", passages=PASSAGES)
    )
    assert (judged.missing, judged.model, judged.usage) == ("recorded", "rules", chat_pb2.Usage())


async def test_without_a_model_rules_judge_the_claims_of_a_text_and_say_so(stub: Stub) -> None:
    split = await stub.SplitClaims(pb.SplitClaimsRequest(text="Whales sing. Rome is the capital of France."))
    judged = await stub.JudgeClaims(pb.JudgeClaimsRequest(claims=split.claims, passages=PASSAGES))
    assert [(claim.start_offset, claim.end_offset) for claim in split.claims] == [(0, 12), (13, 43)]
    assert [(verdict.verdict, list(verdict.words)) for verdict in judged.verdicts] == [
        (verification_pb2.VERDICT_SUPPORTED, []),
        (verification_pb2.VERDICT_REFUTED, ["Rome"]),
    ]
    assert (judged.model, judged.usage) == ("rules", chat_pb2.Usage())
