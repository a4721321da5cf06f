"""JSON schemas for structured output."""

from collections.abc import Mapping

from pydantic import BaseModel

__all__ = ["schema_of"]


def schema_of(answer: type[BaseModel]) -> Mapping[str, object]:
    """The class's schema in the form that strict providers accept: closed, all fields required, no
    defaults."""
    schema = answer.model_json_schema()
    _close(schema)
    return schema


def _close(node: object) -> None:
    if isinstance(node, dict):
        for key in ("title", "default", "minimum", "maximum"):
            if not isinstance(node.get(key), dict):
                node.pop(key, None)
        if isinstance(properties := node.get("properties"), dict):
            node["additionalProperties"] = False
            node["required"] = list(properties)
        for value in node.values():
            _close(value)
    elif isinstance(node, list):
        for value in node:
            _close(value)
