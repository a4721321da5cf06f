"""Bodies of other protocols, read so that nothing in them is dropped or bent, and checked against models."""

import json
import math
import re
from collections import Counter
from typing import Any, Final

from groundline_runtime.errors import FieldViolation, InvalidArgumentError, Violations
from pydantic import BaseModel, ValidationError

_MAX_DEPTH: Final = 30
"""Maximum levels of nesting, as at the gateway's own addresses."""
_MAX_VIOLATIONS: Final = 20
_NAME_CHARACTERS: Final = 100
"""Maximum number of characters of a member's name that a path repeats."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_OVERFLOW: Final = object()
"""Value as which a number is read that no double holds."""

_IN_OUR_WORDS: Final = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "extra_forbidden": "is not a field",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge:.15g}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le:.15g}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is required",
    "model_type": "must be an object",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have {min_length} or more characters",
    "string_type": "must be a text",
    "too_long": "must have at most {max_length} entries, has {actual_length}",
    "too_short": "must have {min_length} or more entries, has {actual_length}",
}
"""Descriptions by pydantic's types of errors, whose own texts speak of Python and of steps of validation."""


def read_json(body: bytes) -> Any:
    """Read a body.

    Raises InvalidArgumentError that names members that are given twice, numbers that no double holds, and
    texts that are not Unicode: of the one a reader takes the last, at the others it fails.
    """
    try:
        read = json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_float=_number,
            parse_int=lambda digits: int(digits) if _number(digits) is not _OVERFLOW else _OVERFLOW,
            parse_constant=lambda _: _OVERFLOW,
        )
    except (ValueError, RecursionError):
        raise InvalidArgumentError([FieldViolation("body", "is not JSON")]) from None
    violations = Violations()
    _look_through(read, "", 1, violations)
    violations.raise_if_any()
    return read


def validated[M: BaseModel](model: type[M], given: Any, within: str = "") -> M:
    """Return the model of what was read, a part of a body or all of it.

    Raises InvalidArgumentError that names every wrong field.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        violations = Violations()
        for problem in error.errors(include_url=False, include_input=False):
            path = within
            for step in problem["loc"]:
                path = _within(path, step)
            text = _IN_OUR_WORDS.get(problem["type"], "").format(**problem.get("ctx", {}))
            violations.add(path or "body", text or problem["msg"].removeprefix("Value error, "))
        raise InvalidArgumentError(violations) from None


class _Object(dict[str, Any]):
    """An object with the names that it gives more than once."""

    repeated: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    read = _Object(pairs)
    if len(read) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        read.repeated = frozenset(name for name, count in counts.items() if count > 1)
    return read


def _number(text: str) -> Any:
    number = float(text)
    return number if math.isfinite(number) else _OVERFLOW


def _look_through(value: Any, path: str, depth: int, violations: Violations) -> None:
    if len(violations) >= _MAX_VIOLATIONS:
        return
    if value is _OVERFLOW:
        violations.add(path, "must be a finite number")
    elif isinstance(value, str) and _SURROGATE.search(value):
        violations.add(path, "must be Unicode text")
    elif isinstance(value, dict | list) and depth > _MAX_DEPTH:
        violations.add(path, f"must not have more than {_MAX_DEPTH} levels")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _look_through(each, _within(path, index), depth + 1, violations)
    elif isinstance(value, _Object):
        for name, each in value.items():
            inner = _within(path, name)
            if name in value.repeated:
                violations.add(inner, "is given more than once")
            elif _SURROGATE.search(name):
                violations.add(inner, "must have a name of Unicode text")
            _look_through(each, inner, depth + 1, violations)


def _within(path: str, step: int | str) -> str:
    if isinstance(step, int):
        return f"{path}[{step}]"
    name = _SURROGATE.sub("?", step)[:_NAME_CHARACTERS]
    return f"{path}.{name}" if path else name
