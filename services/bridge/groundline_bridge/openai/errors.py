"""Errors in the shape of the OpenAI API."""

from typing import Any, Final

from groundline_runtime.errors import FieldViolation, GroundlineError, InvalidArgumentError

from groundline_bridge.domain.models import unknown_model

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_NO_SUCH_MODEL: Final = "COLLECTION_NOT_FOUND"
_PARAMETERS: Final = (
    ("options.generation.temperature", "temperature"),
    ("options.generation.max_output_tokens", "max_tokens"),
    ("options.generation.system_prompt", "messages"),
    ("query", "messages"),
    ("texts", "input"),
    ("chat_history", "messages"),
    ("filter", "groundline.filter"),
    ("options", "groundline.options"),
    ("as_of", "groundline.asOf"),
)
"""Prefixes of the contract's fields, and their names in the OpenAI API; the first match counts."""


def in_words_of_openai(error: GroundlineError, model: str) -> GroundlineError:
    """Translate a service's error about the request: a model that is not a collection does not exist."""
    is_about_the_model = any(each.field.startswith("collection_id") for each in error.violations)
    if error.reason == _NO_SUCH_MODEL or is_about_the_model:
        return unknown_model(model)
    return about_parameters(error)


def about_parameters(error: GroundlineError) -> GroundlineError:
    """Return a service's error with its violations named as the OpenAI API names the fields."""
    if not error.violations:
        return error
    violations = [FieldViolation(_parameter(each.field), each.description) for each in error.violations]
    return InvalidArgumentError(violations, reason=error.reason, metadata=error.metadata)


def status_of(error: GroundlineError) -> int:
    """Return the HTTP status."""
    return error.code.http_status


def body_of(error: GroundlineError) -> dict[str, Any]:
    """Return `{"error": …}`; `code` is the reason, `param` the first wrong field, and `violations` are
    all."""
    status = status_of(error)
    fields = [{"param": each.field, "message": each.description} for each in error.violations]
    message = "; ".join(f"{each['param']}: {each['message']}" for each in fields) or error.message
    code, param = error.reason.lower(), fields[0]["param"] if fields else None
    if error.reason in (_NO_SUCH_MODEL, "MODEL_NOT_FOUND"):
        code, param = "model_not_found", "model"
    return {
        "error": {
            "message": message if not error.error_id else f"{message} (error id {error.error_id})",
            "type": _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error"),
            "param": param,
            "code": code,
            **({"violations": fields} if len(fields) > 1 else {}),
        }
    }


def _parameter(field: str) -> str:
    for ours, theirs in _PARAMETERS:
        if field == ours or field.startswith((f"{ours}.", f"{ours}[")):
            # If several fields of the contract are one parameter, the rest of the path means nothing to
            # clients.
            return theirs + (field.removeprefix(ours) if theirs.startswith("groundline.") else "")
    return field
