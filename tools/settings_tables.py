"""Keeps the settings tables of README.md equal to the settings classes.

settings_tables.py write    rewrite the tables
settings_tables.py check    fail when they are stale
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from generated import write_or_check
from groundline_bridge.settings import BridgeSettings
from groundline_coordinator.settings import CoordinatorSettings
from groundline_gateway.settings import GatewaySettings
from groundline_generator.settings import GeneratorSettings
from groundline_ingestor.settings import IngestorSettings
from groundline_reranker.settings import RerankerSettings
from groundline_retriever.settings import RetrieverSettings
from groundline_runtime.settings import ServiceSettings, Settings
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- settings tables: make settings-tables -->\n", "<!-- end of settings tables -->\n"
CLASSES: tuple[tuple[str, type[Settings]], ...] = (
    ("coordinator", CoordinatorSettings),
    ("retriever", RetrieverSettings),
    ("reranker", RerankerSettings),
    ("generator", GeneratorSettings),
    ("ingestor", IngestorSettings),
    ("bridge", BridgeSettings),
    ("gateway", GatewaySettings),
)


def rows(model: type[BaseModel], prefix: str, leave_out: frozenset[str] = frozenset()) -> Iterator[str]:
    """A table row for each field; the fields of a group follow under the group's name."""
    for name, field in model.model_fields.items():
        if name in leave_out:
            continue
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from rows(field.annotation, f"{prefix}{name.upper()}__")
        else:
            description = " ".join((field.description or "").split())
            yield f"| `{prefix}{name.upper()}` | {shown_default(field)} | {description} |"


def shown_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        return "see there"
    return "unset" if field.default in (None, "") else f"`{field.default}`"


def table(title: str, body: list[str]) -> str:
    return "\n".join([f"**{title}**\n", "| variable | default | |", "|---|---|---|", *body]) + "\n\n"


def tables() -> str:
    shared = table("every service", list(rows(ServiceSettings, "GROUNDLINE_")))
    own = []
    for name, settings in CLASSES:
        # A default of the class's own is worth a row again.
        same = frozenset(
            field
            for field, info in ServiceSettings.model_fields.items()
            if issubclass(settings, ServiceSettings) and settings.model_fields[field].default == info.default
        )
        body = list(rows(settings, f"GROUNDLINE_{name.upper()}_", same))
        own.append(table(name, body) if body else f"**{name}**: nothing beyond what every service has.\n\n")
    return shared + "".join(own)


def main() -> int:
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    fresh = f"{before}{BEGIN}\n{tables()}{END}{after}"
    return write_or_check(sys.argv[1:], {README: fresh}, "make settings-tables", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
