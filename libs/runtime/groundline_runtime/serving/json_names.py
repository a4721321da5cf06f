"""Names of a request's fields as the client spells them: proto names over gRPC, lowerCamelCase in JSON."""

import re
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from groundline_runtime.context import is_transcoded
from groundline_runtime.errors import FieldViolation, GroundlineError, InvalidArgumentError

_STEP: Final = re.compile(r"([a-z0-9_]+)((?:\[\d+\])?)(\.?)")
_NAME: Final = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b")


def as_sent(error: GroundlineError, request: Descriptor) -> GroundlineError:
    """Return the error with its violations named as the client of the current request spells the fields."""
    if not error.violations or not is_transcoded():
        return error
    violations = [json_violation(violation, request) for violation in error.violations]
    named = InvalidArgumentError(
        violations,
        reason=error.reason,
        # A message that only lists the violations is made again.
        message=None if error.message == str(InvalidArgumentError(error.violations)) else error.message,
        retry_after_seconds=error.retry_after_seconds,
        metadata=error.metadata,
    )
    return named.with_traceback(error.__traceback__)


def json_violation(violation: FieldViolation, request: Descriptor) -> FieldViolation:
    """Return the violation with JSON names, in its path and for the other fields in its text.

    Names that are not fields of the contract, such as keys of a map or members of a filter, stay as they
    are.
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
    """Return the message type of a field's value; None if the value has no fields of the contract."""
    message: Descriptor | None = field.message_type
    if message is None or message.GetOptions().map_entry or message.full_name.startswith("google."):
        return None
    return message
