"""Make docs/reference/settings.md, the reference of all settings, from the settings classes.

settings_tables.py write    write it
settings_tables.py check    fail when it is stale
"""

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import UnionType
from typing import Any, Final, get_args

from generated import write_or_check
from groundline_runtime.settings import ServiceSettings, Settings
from project import ROOT, SERVICES
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

REFERENCE: Final = ROOT / "docs/reference/settings.md"

HEAD: Final = """\
# Settings

Made from the settings classes by `make settings-tables`; do not edit.

Every setting is an environment variable, or a line of a dotenv file given with `--settings FILE`. A service's
own name wins over the shared one: `GROUNDLINE_RETRIEVER_PORT`, then `GROUNDLINE_PORT`. A wrong setting ends
the start with one line that names it. `groundline up` passes the variables of its own environment on to the
services.

"""
CLASSES: Final[Mapping[str, type[Settings]]] = {
    name: getattr(import_module(f"groundline_{name}.settings"), f"{name.capitalize()}Settings")
    for name in SERVICES
}


def rows(model: type[BaseModel], prefix: str, leave_out: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield a table row for each field; the fields of a group follow under the group's name, below a row for
    the group if it may be unset."""
    for name, field in model.model_fields.items():
        if name in leave_out:
            continue
        group = group_of(field.annotation)
        if group is not field.annotation or group is None:
            description = " ".join((field.description or "").split())
            yield f"| `{prefix}{name.upper()}` | {shown_default(field)} | {description} |"
        if group is not None:
            yield from rows(group, f"{prefix}{name.upper()}__")


def group_of(annotation: Any) -> type[BaseModel] | None:
    """Return the class of settings that a field's type is or may be."""
    for one in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def shown_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        return "see there"
    if field.default in (None, ""):
        return "unset"
    # As a variable spells a list.
    shown = json.dumps(field.default) if isinstance(field.default, tuple) and field.default else field.default
    return f"`{shown}`"


def table(title: str, body: list[str]) -> str:
    return "\n".join([f"## {title}\n", "| variable | default | |", "|---|---|---|", *body]) + "\n\n"


def tables() -> str:
    shared = table("Every service", list(rows(ServiceSettings, "GROUNDLINE_")))
    own = []
    for name, settings in CLASSES.items():
        # A class with a default of its own gets a row again.
        same = frozenset(
            field
            for field, info in ServiceSettings.model_fields.items()
            if issubclass(settings, ServiceSettings) and settings.model_fields[field].default == info.default
        )
        body = list(rows(settings, f"GROUNDLINE_{name.upper()}_", same))
        own.append(
            table(name.capitalize(), body)
            if body
            else f"## {name.capitalize()}\n\nNothing beyond what every service has.\n\n"
        )
    return shared + "".join(own)


def main() -> int:
    fresh = (HEAD + tables()).rstrip("\n") + "\n"
    return write_or_check(sys.argv[1:], {REFERENCE: fresh}, "make settings-tables", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
