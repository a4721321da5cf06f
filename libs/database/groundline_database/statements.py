"""SQL of some length, in a `.sql` file beside the module that runs it."""

import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)$\n", re.MULTILINE)
_FRAGMENT: Final = re.compile(r"\{(\w+)\}")


def read_statements(module: str, **fragments: str) -> Mapping[str, str]:
    """Return the statements of the file `MODULE.sql` beside a module, by name: see `parse_statements`.

    `module` is the module's `__name__`. Raises FileNotFoundError, ValueError.
    """
    package, _, name = module.rpartition(".")
    return parse_statements((resources.files(package) / f"{name}.sql").read_text("utf-8"), **fragments)


def parse_statements(text: str, **fragments: str) -> Mapping[str, str]:
    """Return statements by name, each after a line `-- name: NAME`.

    `{NAME}` in a statement stands for an earlier statement of the text, or for one of `fragments`: conditions
    that several modules share. Comments before the first name describe the file. Raises ValueError for an
    unknown or a repeated name.
    """
    _, *parts = _NAME.split(text)
    known = dict(fragments)
    statements: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in known:
            raise ValueError(f"the statement {name} is defined twice")
        known[name] = statements[name] = _FRAGMENT.sub(
            lambda found, of=name: _fragment(found[1], of, known), body
        ).strip()
    return statements


def _fragment(name: str, statement: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise ValueError(
            f"the statement {statement} uses {{{name}}}, which is neither above it nor a fragment"
        )
    return known[name]
