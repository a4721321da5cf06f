"""The strategies' models: a real cross-encoder, rerank APIs and the generator's judge, on real ports."""

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import onnx
import pytest
from groundline.v1 import (
    chat_pb2,
    error_pb2,
    generator_service_pb2,
    generator_service_pb2_grpc,
    options_pb2,
    passage_pb2,
    reranker_service_pb2_grpc,
)
from groundline.v1 import reranker_service_pb2 as pb
from groundline_reranker.__main__ import wire
from groundline_reranker.settings import RerankerSettings
from groundline_runtime.serving.server import Application
from groundline_tests.http_server import Answering, listening
from groundline_tests.retriever.candidates import Found, request_of
from groundline_tests.runtime import serve
from groundline_validation import validate
from onnx import TensorProto, helper
from pydantic import SecretStr, ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers, processors

KEY = "key-of-the-rerank-api"
TEXTS = ("nothing of it", "lease", "a lease is a lease", "lease or quorum")
"""In the fused order. The models below score by how often a passage says "lease"."""
BY_LEASE = ["3", "2", "4", "1"]


@asynccontextmanager
async def reranker(settings: RerankerSettings) -> AsyncIterator[Any]:
    async with (
        wire(settings) as application,
        serve(application) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        yield reranker_service_pb2_grpc.RerankerServiceStub(channel)


async def rerank(
    stub: Any,
    strategy: options_pb2.RerankStrategy.ValueType,
    *,
    model: str | None = None,
    seconds: float = 20,
) -> pb.RerankResponse:
    found = [Found(n, keyword=10 / n, text=text) for n, text in enumerate(TEXTS, 1)]
    request = request_of(found, options_pb2.RerankOptions(strategy=strategy, model=model))
    return cast("pb.RerankResponse", await stub.Rerank(request, timeout=seconds))


def order(response: pb.RerankResponse) -> list[str]:
    return [ranked.chunk_id for ranked in response.ranked]


def reasons(response: pb.RerankResponse) -> list[tuple[str, str]]:
    return [
        (
            passage_pb2.Component.Name(each.component).removeprefix("COMPONENT_").lower(),
            error_pb2.ErrorReason.Name(each.reason),
        )
        for each in response.degraded
    ]


FUSED = ["1", "2", "3", "4"]


# cross_encoder: a model built here, loaded and run as any other


@pytest.fixture(scope="module")
def cross_encoder_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder whose logit is how often the passage, not the query, says "lease"."""
    directory = tmp_path_factory.mktemp("cross-encoder")
    vocabulary = {"[UNK]": 0, "[PAD]": 1, "[SEP]": 2, "lease": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B:1 [SEP]:1", special_tokens=[("[SEP]", 2)]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "sep_token": "[SEP]"}
    (directory / "special_tokens_map.json").write_text(json.dumps(special))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 64, "pad_token": "[PAD]"})
    )
    (directory / "config.json").write_text(json.dumps({"pad_token_id": 1}))
    shape = ["batch", "tokens"]
    graph = helper.make_graph(
        [
            helper.make_node("Equal", ["input_ids", "lease"], ["said"]),
            helper.make_node("Cast", ["said"], ["said_int"], to=TensorProto.INT64),
            helper.make_node("Mul", ["said_int", "token_type_ids"], ["in_passage"]),
            helper.make_node("ReduceSum", ["in_passage", "axis"], ["count"], keepdims=1),
            helper.make_node("Cast", ["count"], ["logits"], to=TensorProto.FLOAT),
        ],
        "counts-leases",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [
            helper.make_tensor("lease", TensorProto.INT64, [1], [3]),
            helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, directory / "model.onnx")
    return directory


async def test_a_cross_encoder_of_a_directory_scores_both_as_one_text(
    cross_encoder_dir: Path,
) -> None:
    settings = RerankerSettings(cross_encoder_dir=cross_encoder_dir, cross_encoder_batch_size=3)
    async with reranker(settings) as stub:
        for _ in range(2):
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_CROSS_ENCODER)
            assert order(response) == BY_LEASE
            assert [ranked.score for ranked in response.ranked] == [2, 1, 1, 0]
            [component] = response.ranked[0].explanation.components
            assert (component.name, component.value, component.weight) == ("cross_encoder", 2, 1)
            assert not response.degraded


async def test_a_cross_encoder_that_cannot_be_loaded_leaves_the_fused_order(tmp_path: Path) -> None:
    async with reranker(RerankerSettings(cross_encoder_dir=tmp_path)) as stub:
        response = await rerank(stub, options_pb2.RERANK_STRATEGY_CROSS_ENCODER)
    assert order(response) == FUSED
    assert reasons(response) == [("reranker", "MODEL_NOT_LOADED")]
    assert str(tmp_path) not in response.degraded[0].message


async def test_a_request_cannot_load_a_cross_encoder_of_its_choice(cross_encoder_dir: Path) -> None:
    async with reranker(RerankerSettings(cross_encoder_dir=cross_encoder_dir)) as stub:
        response = await rerank(stub, options_pb2.RERANK_STRATEGY_CROSS_ENCODER, model="../other")
    assert (order(response), reasons(response)) == (FUSED, [("reranker", "MODEL_NOT_OFFERED")])


# api: servers that speak each provider's wire format


@dataclass
class RerankServer:
    """A rerank API; `replies` come first: a status, headers and a body, or None to stay silent."""

    url: str
    results: str
    replies: list[tuple[int, dict[str, str], bytes] | None] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    hang_up: threading.Event = field(default_factory=threading.Event)
    billed: dict[str, Any] = field(default_factory=dict)
    """Part of the answers that tells their price."""

    def answer(self, body: dict[str, Any]) -> bytes:
        """Score by relevance, best first, as the providers do."""
        scores = [document.count("lease") / 10 for document in body["documents"]]
        ranked = sorted(range(len(scores)), key=lambda index: -scores[index])
        results = [{"index": index, "relevance_score": scores[index]} for index in ranked]
        return json.dumps({self.results: results, **self.billed}).encode()


@contextmanager
def rerank_server(results: str = "results") -> Iterator[RerankServer]:
    class Handler(Answering):
        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.given())
            known.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            reply = known.replies.pop(0) if known.replies else (200, {}, known.answer(body))
            if reply is None:
                known.hang_up.wait(30)
                return
            status, headers, content = reply
            self.answer(status, content, headers)

    with listening(Handler) as url:
        known = RerankServer(f"{url}/v9", results)
        try:
            yield known
        finally:
            known.hang_up.set()


def api_settings(server: RerankServer, api_format: Any = "cohere", **changes: Any) -> RerankerSettings:
    return RerankerSettings(api_format=api_format, api_base_url=server.url, api_key=SecretStr(KEY), **changes)


@pytest.mark.parametrize(
    ("api_format", "results", "fields", "billed"),
    [
        (
            "cohere",
            "results",
            {"model": "rerank-v3.5", "top_n": 4},
            {"meta": {"billed_units": {"search_units": 3}}},
        ),
        (
            "jina",
            "results",
            {"model": "jina-reranker-v2-base-multilingual", "top_n": 4, "return_documents": False},
            {"usage": {"total_tokens": 3}},
        ),
        (
            "voyage",
            "data",
            {"model": "rerank-2.5", "top_k": 4, "return_documents": False, "truncation": True},
            {"usage": {"total_tokens": 3}},
        ),
    ],
)
async def test_each_providers_wire_format_is_spoken(
    api_format: str, results: str, fields: dict[str, Any], billed: dict[str, Any]
) -> None:
    with rerank_server(results) as server:
        server.billed = billed
        async with reranker(api_settings(server, api_format, api_usd_per_million_units=2000)) as stub:
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_API)
    assert response.usage == chat_pb2.Usage(rerank_units=3, cost_usd=0.006)
    assert order(response) == BY_LEASE
    assert not response.degraded
    [(path, headers, body)] = server.requests
    assert path == "/v9/rerank"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {"query": "lease", "documents": list(TEXTS), **fields}


@pytest.mark.parametrize(
    ("billed", "price", "units"),
    [
        ({"meta": {"billed_units": {"search_units": 3}}}, None, 3),
        ({}, 2000, 1),
        ({"meta": {"billed_units": {"search_units": "many"}}}, 2000, 1),
        ({"meta": None}, 2000, 1),
    ],
)
async def test_without_a_price_or_a_bill_what_reranking_costs_is_not_known(
    billed: dict[str, Any], price: float | None, units: int
) -> None:
    with rerank_server() as server:
        server.billed = billed
        async with reranker(api_settings(server, api_usd_per_million_units=price)) as stub:
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_API)
    assert order(response) == BY_LEASE
    assert response.usage == chat_pb2.Usage(rerank_units=units)


async def test_a_model_is_passed_on_and_passages_go_in_batches() -> None:
    with rerank_server() as server:
        async with reranker(api_settings(server, api_batch_size=3)) as stub:
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_API, model="rerank-x")
    assert order(response) == BY_LEASE
    assert sorted(len(body["documents"]) for _, _, body in server.requests) == [1, 3]
    assert {body["model"] for _, _, body in server.requests} == {"rerank-x"}


@pytest.mark.parametrize(
    ("status", "reason", "attempts"),
    [
        (401, "RERANK_API_REFUSED", 1),
        (404, "RERANK_API_REFUSED", 1),
        (422, "RERANK_API_REFUSED", 1),
        (302, "RERANK_API_REFUSED", 1),
        (429, "RERANK_API_QUOTA", 3),
        (503, "RERANK_API_FAILED", 3),
    ],
)
async def test_what_may_pass_is_tried_again_and_then_the_fused_order_stays(
    status: int, reason: str, attempts: int
) -> None:
    with rerank_server() as server:
        server.replies = [(status, {"location": server.url}, f"{KEY} is wrong".encode())] * attempts
        async with reranker(api_settings(server)) as stub:
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_API)
    assert (order(response), reasons(response)) == (FUSED, [("reranker", reason)])
    assert len(server.requests) == attempts
    assert KEY not in response.degraded[0].message


async def test_a_quota_that_is_over_soon_is_waited_for() -> None:
    with rerank_server() as server:
        server.replies = [(429, {"retry-after": "0.05"}, b"")]
        async with reranker(api_settings(server)) as stub:
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_API)
    assert (order(response), reasons(response), len(server.requests)) == (BY_LEASE, [], 2)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(
            (429, {"retry-after": "3600"}, b""), "RERANK_API_QUOTA", id="quota outlasts the request"
        ),
        pytest.param(None, "RERANKER_LATE", id="silent"),
        ((200, {}, b"<html>"), "RERANK_API_MALFORMED"),
        ((200, {}, b"[]"), "RERANK_API_MALFORMED"),
        ((200, {}, b'{"results": [{"index": 0, "relevance_score": 0.5}]}'), "RERANK_API_MALFORMED"),
        (
            (200, {}, b'{"results": [{"index": 0}, {"index": 1}, {"index": 2}, {"index": 3}]}'),
            "RERANK_API_MALFORMED",
        ),
        ((200, {}, b'{"data": null}'), "RERANK_API_MALFORMED"),
    ],
)
async def test_without_a_score_for_each_passage_in_time_the_fused_order_stays(
    reply: tuple[int, dict[str, str], bytes] | None, reason: str
) -> None:
    with rerank_server() as server:
        server.replies = [reply]
        late = {"strategy_timeout_seconds": 0.3} if reply is None else {}
        async with reranker(api_settings(server, **late)) as stub:
            response = await rerank(stub, options_pb2.RERANK_STRATEGY_API)
    assert (order(response), reasons(response)) == (FUSED, [("reranker", reason)])


async def test_an_api_that_is_down_is_named() -> None:
    with rerank_server() as server:
        settings = api_settings(server)
    async with reranker(settings) as stub:
        response = await rerank(stub, options_pb2.RERANK_STRATEGY_API)
    assert (order(response), reasons(response)) == (FUSED, [("reranker", "RERANK_API_UNREACHABLE")])


@pytest.mark.parametrize(
    "url", ["http://rerank.example.com/v1", "ftp://127.0.0.1", "https://", "nothing", "//["]
)
def test_a_key_goes_to_https_or_this_machine_only(url: str) -> None:
    with pytest.raises(ValidationError, match="api_base_url"):
        RerankerSettings(api_format="cohere", api_base_url=url, api_key=SecretStr(KEY))


# llm: a scripted generator


class Judge(generator_service_pb2_grpc.GeneratorServiceServicer):
    """Implements JudgeRelevance by `answer`."""

    def __init__(
        self, answer: Callable[[generator_service_pb2.JudgeRelevanceRequest], list[float] | grpc.StatusCode]
    ) -> None:
        self._answer = answer
        self.requests: list[generator_service_pb2.JudgeRelevanceRequest] = []
        self.seconds_left: list[float] = []

    async def JudgeRelevance(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        self.seconds_left.append(context.time_remaining())
        answer = self._answer(request)
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, "scripted")
        paid = chat_pb2.Usage(prompt_tokens=10, output_tokens=1, cost_usd=0.25)
        return generator_service_pb2.JudgeRelevanceResponse(
            relevances=cast("list[float]", answer), usage=paid
        )


def judge_by(answer: Any) -> Judge:
    return Judge(answer)  # type: ignore[abstract]  # the other RPCs answer UNIMPLEMENTED


@asynccontextmanager
async def judged_by(judge: Judge, **changes: Any) -> AsyncIterator[Any]:
    application = Application(
        services={
            "groundline.v1.GeneratorService": lambda server: (
                generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(judge, server)
            )
        },
        validate=validate,
    )
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(serve(application))
        settings = RerankerSettings(generator_target=target, **changes)
        yield await stack.enter_async_context(reranker(settings))


async def test_the_judge_gets_batches_with_the_requests_time_and_model() -> None:
    judge = judge_by(lambda request: [each.text.count("lease") / 10 for each in request.passages])
    async with judged_by(judge, llm_batch_size=3) as stub:
        response = await rerank(stub, options_pb2.RERANK_STRATEGY_LLM, model="judge-1", seconds=10)
    assert (order(response), reasons(response)) == (BY_LEASE, [])
    assert sorted([each.number for each in request.passages] for request in judge.requests) == [
        [1],
        [1, 2, 3],
    ]
    assert {(request.query, request.model) for request in judge.requests} == {("lease", "judge-1")}
    assert response.usage == chat_pb2.Usage(prompt_tokens=20, output_tokens=2, cost_usd=0.5)
    assert all(seconds < 9 for seconds in judge.seconds_left)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([0.5], "JUDGEMENT_INCOMPLETE"),
        (grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"),
    ],
)
async def test_a_failing_judge_leaves_the_order(answer: list[float] | grpc.StatusCode, reason: str) -> None:
    async with judged_by(judge_by(lambda _request: answer)) as stub:
        response = await rerank(stub, options_pb2.RERANK_STRATEGY_LLM)
    assert order(response) == FUSED
    [(component, found)] = reasons(response)
    assert component == "reranker"
    assert reason in found
