import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from groundline_runtime import errors
from groundline_runtime.errors import (
    Code,
    DataLossError,
    FieldViolation,
    GroundlineError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    Violations,
    error_type,
)
from groundline_runtime.status import from_rpc_error, to_status, translated_rpc_errors


def rpc_error(
    status: status_pb2.Status | bytes | None, code: grpc.StatusCode, text: str
) -> grpc.aio.AioRpcError:
    raw = status.SerializeToString() if isinstance(status, status_pb2.Status) else status
    trailers = grpc.aio.Metadata() if raw is None else grpc.aio.Metadata(("grpc-status-details-bin", raw))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, text)


@pytest.mark.parametrize("code", list(Code))
def test_every_code_is_grpcs_and_has_its_exception(code: Code) -> None:
    assert grpc.StatusCode[code.name].value[0] == code.value
    assert error_type(code).code is code


def test_violations_are_raised_together_or_not_at_all() -> None:
    violations = Violations()
    violations.raise_if_any()
    violations.add("query", "is empty")
    violations.add("top_k", "is negative")
    with pytest.raises(InvalidArgumentError) as caught:
        violations.raise_if_any()
    assert caught.value.message == "query: is empty; top_k: is negative"
    assert [violation.field for violation in caught.value.violations] == ["query", "top_k"]


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("THREAD_NOT_FOUND", "no such thread", metadata={"thread_id": "1"}),
        InvalidArgumentError([FieldViolation("a", "b")], reason="BAD", message="bad"),
        UnavailableError("BUSY", "later", retry_after_seconds=0.25),
        InternalError("INTERNAL", "fixed", metadata={"error_id": "7"}),
        DataLossError("LOST", "gone"),
    ],
)
def test_an_error_survives_the_wire(error: GroundlineError) -> None:
    status = grpc.StatusCode[error.code.name]
    rebuilt = from_rpc_error(rpc_error(to_status(error), status, error.message))
    assert type(rebuilt) is type(error)
    assert vars(rebuilt) | {"metadata": dict(rebuilt.metadata)} == vars(error) | {
        "metadata": dict(error.metadata)
    }
    assert rebuilt.error_id == error.error_id


@pytest.mark.parametrize("details", [None, b"\xff not a status"], ids=["none", "garbage"])
def test_a_strangers_status_keeps_its_code_but_not_its_text(details: bytes | None) -> None:
    rebuilt = from_rpc_error(rpc_error(details, grpc.StatusCode.UNAVAILABLE, "ipv4:10.0.0.7:5432 refused"))
    assert isinstance(rebuilt, UnavailableError)
    assert rebuilt.reason == "UNAVAILABLE"
    assert "10.0.0.7" not in rebuilt.message


def test_another_domains_error_info_is_not_taken_for_ours() -> None:
    status = status_pb2.Status(code=5, message="their text")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="THEIRS", domain="example.com"))
    rebuilt = from_rpc_error(rpc_error(status, grpc.StatusCode.NOT_FOUND, "their text"))
    assert (rebuilt.code, rebuilt.reason) == (Code.NOT_FOUND, "NOT_FOUND")
    assert "their text" not in rebuilt.message


def test_translation_keeps_the_cause_and_leaves_other_errors_alone() -> None:
    original = rpc_error(None, grpc.StatusCode.ABORTED, "x")
    with pytest.raises(errors.AbortedError) as caught, translated_rpc_errors():
        raise original
    assert caught.value.__cause__ is original
    with pytest.raises(KeyError), translated_rpc_errors():
        raise KeyError("x")
