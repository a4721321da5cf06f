"""An asynchronous servicer as a caller with an ordinary, synchronous stub sees it, by pytest-grpc."""

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from groundline.v1 import options_pb2, reranker_service_pb2, reranker_service_pb2_grpc
from groundline_reranker.service import RankingService
from groundline_reranker.servicer import RerankerServicer
from groundline_tests.retriever.candidates import Found, request_of

Request = reranker_service_pb2.RerankRequest


@pytest.fixture(scope="module")
def grpc_add_to_server() -> Any:
    return reranker_service_pb2_grpc.add_RerankerServiceServicer_to_server


@pytest.fixture(scope="module")
def grpc_servicer() -> RerankerServicer:
    return RerankerServicer(RankingService({}))


@pytest.fixture(scope="module")
def grpc_stub_cls() -> type[reranker_service_pb2_grpc.RerankerServiceStub]:
    return reranker_service_pb2_grpc.RerankerServiceStub


def details(error: grpc.RpcError) -> status_pb2.Status:
    [encoded] = [entry.value for entry in error.trailing_metadata() if entry.key == "grpc-status-details-bin"]
    return status_pb2.Status.FromString(encoded)


def test_a_call_returns_its_response(grpc_stub: Any) -> None:
    request = request_of([Found(2, keyword=1.0), Found(1, keyword=2.0)], options_pb2.RerankOptions())
    response = grpc_stub.Rerank(request, timeout=20)

    assert [ranked.chunk_id for ranked in response.ranked] == ["1", "2"]


def test_an_error_carries_one_error_info_and_every_violation(grpc_stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        grpc_stub.Rerank(Request(query=" ", options=options_pb2.RerankOptions(top_k=0)), timeout=20)

    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    status = details(raised.value)
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert status.message == raised.value.details()
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert [detail.Unpack(info) for detail in status.details].count(True) == 1
    assert info.domain == "groundline.dev"
    assert any(detail.Unpack(bad_request) for detail in status.details)
    assert {violation.field for violation in bad_request.field_violations} >= {"query", "options.top_k"}
