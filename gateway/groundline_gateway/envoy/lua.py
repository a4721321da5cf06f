"""Python values in Lua's syntax."""

import json
from collections.abc import Mapping
from typing import Any


def constants(**values: Any) -> str:
    """Return lines that define local variables, to precede a script."""
    return "".join(f"local {name} = {_literal(value)}\n" for name, value in values.items())


def _literal(value: Any) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case Mapping():
            return (
                "{" + ", ".join(f"[{_literal(key)}] = {_literal(item)}" for key, item in value.items()) + "}"
            )
        case list():
            return "{" + ", ".join(map(_literal, value)) + "}"
        case _:
            # Lua reads JSON's numbers, and JSON strings of printable ASCII.
            return json.dumps(value)
