"""Errors on the wire: GroundlineError to google.rpc.Status and back."""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Never

import grpc
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from groundline_runtime.errors import (
    Code,
    FieldViolation,
    GroundlineError,
    InvalidArgumentError,
    error_type,
)

DOMAIN: Final = "groundline.dev"
STATUS_KEY: Final = "grpc-status-details-bin"
# Peers refuse trailers above their metadata limit and lose the whole status with them: a client that sets no
# limit of its own from 8 KiB on. The message travels a second time as grpc-message, with three bytes for each
# one that is not ASCII.
MAX_MESSAGE_BYTES: Final = 800
MAX_VIOLATION_BYTES: Final = 4 * 1024

_SOME_PEER: Final = "a service this request needs"

# Messages for clients: the peer's own text may name hosts or internals.
_PLAIN_MESSAGES: Final = {
    Code.UNAVAILABLE: "{peer} is not available",
    Code.DEADLINE_EXCEEDED: "{peer} did not answer in time",
    Code.CANCELLED: "the call was cancelled",
    Code.UNIMPLEMENTED: "not implemented",
    Code.RESOURCE_EXHAUSTED: "a limit was reached",
}


def to_status(error: GroundlineError) -> status_pb2.Status:
    """Return the wire form: one ErrorInfo, a BadRequest if fields are wrong, a RetryInfo if waiting helps."""
    message = error.message.encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
    status = status_pb2.Status(code=error.code.value, message=message)
    status.details.append(
        _pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata))
    )
    if error.violations:
        status.details.append(_pack(_bad_request(error.violations)))
    if (seconds := error.wait_seconds) is not None:
        delay = Duration()
        delay.FromNanoseconds(int(seconds * 1e9))
        status.details.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
    return status


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", error: GroundlineError) -> Never:
    """End the RPC with the error's status.

    The details go out as trailing metadata through plain `abort`, because the tracing interceptor sees the
    code of `abort` but not the one of `abort_with_status`.
    """
    status = to_status(error)
    trailers = [*(context.trailing_metadata() or ()), (STATUS_KEY, status.SerializeToString())]
    if (seconds := error.wait_seconds) is not None:
        # The gateway turns it into a header.
        trailers.append(("retry-after", str(math.ceil(seconds))))
    await context.abort(grpc.StatusCode[error.code.name], status.message, tuple(trailers))


def from_rpc_error(error: grpc.aio.AioRpcError, peer: str = _SOME_PEER) -> GroundlineError:
    """Rebuild the error that a Groundline service reported: code, reason, violations, retry delay, metadata.

    A status without our ErrorInfo comes from the transport or another server; its text is left out (it names
    addresses), its reason is the code's name, and its message says of `peer` what happened.
    """
    code = Code(error.code().value[0])
    status = _details(error)
    info = error_details_pb2.ErrorInfo()
    if status is None or not _unpack(status, info) or info.domain != DOMAIN:
        return _build(code, code.name, _PLAIN_MESSAGES.get(code, "{peer} failed").format(peer=peer))
    bad_request, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    _unpack(status, bad_request)
    return _build(
        code,
        info.reason,
        status.message,
        violations=[FieldViolation(v.field, v.description) for v in bad_request.field_violations],
        retry_after_seconds=retry.retry_delay.ToNanoseconds() / 1e9 if _unpack(status, retry) else None,
        metadata=dict(info.metadata),
    )


def is_lost(error: grpc.aio.AioRpcError) -> bool:
    """Tell whether the connection broke, by the transport's report, rather than the service failing."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and _details(error) is None


@contextmanager
def translated_rpc_errors(peer: str = _SOME_PEER) -> Iterator[None]:
    """Turn an AioRpcError of the block into its GroundlineError; for adapters that call a service, which name
    it as `peer`: "the retriever"."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error, peer) from error


class UnaryCall[Request, Response]:
    """Unary method of another service as a port has it: a failure is raised as its GroundlineError."""

    def __init__(self, method: Callable[[Request], Awaitable[Response]], peer: str) -> None:
        """Take a stub's method, and the name of the service for messages: "the retriever"."""
        self._method = method
        self._peer = peer

    async def __call__(self, request: Request) -> Response:
        with translated_rpc_errors(self._peer):
            return await self._method(request)


def _build(code: Code, reason: str, message: str, **details: Any) -> GroundlineError:
    kind = error_type(code)
    if issubclass(kind, InvalidArgumentError):
        return kind(details.pop("violations", ()), reason=reason, message=message, **details)
    return kind(reason, message, **details)


def _bad_request(violations: tuple[FieldViolation, ...]) -> error_details_pb2.BadRequest:
    bad_request = error_details_pb2.BadRequest()
    for position, violation in enumerate(violations):
        bad_request.field_violations.add(
            field=violation.field[:500], description=violation.description[:1000]
        )
        if bad_request.ByteSize() > MAX_VIOLATION_BYTES:
            del bad_request.field_violations[-1]
            bad_request.field_violations.add(
                field="", description=f"and {len(violations) - position} more violations"
            )
            break
    return bad_request


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == STATUS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


def _pack(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def _unpack(status: status_pb2.Status, into: Message) -> bool:
    return any(detail.Is(into.DESCRIPTOR) and detail.Unpack(into) for detail in status.details)
