"""Fields of a request as the client spells them: proto names over gRPC, lowerCamelCase in JSON."""

import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from groundline_runtime.context import is_transcoded
from groundline_runtime.errors import FieldViolation, GroundlineError, InvalidArgumentError

__all__ = ["as_sent", "json_violation"]

_STEP = re.compile(r"([a-z0-9_]+)((?:\[\d+\])?)(\.?)")
_NAME = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b")


def as_sent(error: GroundlineError, request: Descriptor) -> GroundlineError:
    """The error with its violations named as the client of the current request spells the fields."""
    if not error.violations or not is_transcoded():
        return error
    violations = [json_violation(violation, request) for violation in error.violations]
    named = InvalidArgumentError(
        violations,
        reason=error.reason,
        # A text that only lists the violations lists them anew.
        message=None if error.message == str(InvalidArgumentError(error.violations)) else error.message,
        retry_after_seconds=error.retry_after_seconds,
        metadata=error.metadata,
    )
    return named.with_traceback(error.__traceback__)


def json_violation(violation: FieldViolation, request: Descriptor) -> FieldViolation:
    """The violation with the names of JSON, in its path and for the fields beside the wrong one in its text.

    What is no field of the contract, such as a key of a map or a member of a filter, stays as it is.
    """
    spelled, rest, message = "", violation.field, request
    while step := _STEP.match(rest):
        field = message.fields_by_name.get(step[1])
        if field is None:
            break
        spelled += field.json_name + step[2] + step[3]
        rest = rest[step.end() :]
        inner = _message_of(field)
        if inner is None or not step[3]:
            break
        message = inner

    def name(word: re.Match[str]) -> str:
        found = message.fields_by_name.get(word[0])
        return word[0] if found is None else str(found.json_name)

    return FieldViolation(spelled + rest, _NAME.sub(name, violation.description))


def _message_of(field: FieldDescriptor) -> Descriptor | None:
    """None where what stands in the field has no fields of the contract."""
    message: Descriptor | None = field.message_type
    if message is None or message.GetOptions().map_entry or message.full_name.startswith("google."):
        return None
    return message
