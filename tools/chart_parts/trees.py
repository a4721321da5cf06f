"""Trees of YAML with conditions and expressions in them, written as a template of Helm."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import yaml

type Tree = Any
"""A dict, list or scalar, with the nodes below in it."""

WIDTH: Final = 1_000_000
"""Columns after which PyYAML would break a scalar: never."""


_AGAIN: Final = re.compile(r"(\{\{- if (.+) \}\}\n(?:(?!\{\{-).*\n)+)\{\{- end \}\}\n\{\{- if \2 \}\}\n")
"""A condition with plain lines, and the same condition again."""


class Absence(Enum):
    """The node that is not there."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT


@dataclass(frozen=True, slots=True)
class Inline:
    """A scalar that an action yields."""

    text: str


@dataclass(frozen=True, slots=True)
class Multiline:
    """A pipeline of a template that yields the lines of a map or list."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """Further items of a list, from a value that may be empty."""

    value: str


@dataclass(frozen=True, slots=True)
class Conditional:
    """One tree under a condition, and another, or nothing, otherwise."""

    condition: str
    then: Tree
    otherwise: Tree = ABSENT


def combined(operator: str, conditions: Iterable[str]) -> str:
    """Join conditions, each once, by a function of templates."""
    distinct = list(dict.fromkeys(conditions))
    if len(distinct) == 1:
        return distinct[0]
    return " ".join((operator, *(f"({one})" if " " in one else one for one in distinct)))


def merged(base: Tree, others: Mapping[str, Tree]) -> Tree:
    """Return one tree that is `base`, or what `others` have in its place under their conditions.

    Conditions that change the same place differently must not hold at once; the later one wins.
    """
    changed = {condition: tree for condition, tree in others.items() if tree != base}
    if not changed:
        return base
    present = {condition: tree for condition, tree in others.items() if tree is not ABSENT}
    if base is ABSENT:
        return Conditional(combined("or", present), merged(next(iter(present.values())), present))
    if removed := [condition for condition in changed if condition not in present]:
        either = combined("or", removed)
        return Conditional(f"not ({either})" if " " in either else f"not {either}", merged(base, present))
    if all(isinstance(tree, dict) for tree in (base, *changed.values())):
        keys = dict.fromkeys(key for tree in (base, *others.values()) for key in tree)
        return {
            key: merged(base.get(key, ABSENT), {name: tree.get(key, ABSENT) for name, tree in others.items()})
            for key in keys
        }
    if (lists := _by_name([base, *others.values()])) is not None:
        keyed = merged(lists[0], dict(zip(others, lists[1:], strict=True)))
        return list(keyed.values())
    result = base
    while changed:
        tree = next(iter(changed.values()))
        alike = [condition for condition, one in changed.items() if one == tree]
        result = Conditional(combined("or", alike), tree, result)
        changed = {condition: one for condition, one in changed.items() if condition not in alike}
    return result


def _by_name(trees: Sequence[Tree]) -> list[dict[Any, Tree]] | None:
    """Return lists of named things as maps, lists of as many things by their places, and None for others."""
    if not all(isinstance(tree, list) for tree in trees):
        return None
    items = [item for tree in trees for item in tree]
    if all(isinstance(item, Items) or (isinstance(item, dict) and "name" in item) for item in items):
        return [{item if isinstance(item, Items) else item["name"]: item for item in tree} for tree in trees]
    if all(isinstance(item, dict) for item in items) and len({len(tree) for tree in trees}) == 1:
        return [dict(enumerate(tree)) for tree in trees]
    return None


def written(tree: Mapping[str, Tree]) -> str:
    """Return the text of a map; neighbours under one condition stand behind it together."""
    text = "".join(f"{line}\n" for line in _lines(tree, 0))
    while (shorter := _AGAIN.sub(r"\1", text)) != text:
        text = shorter
    return text


def _lines(tree: Mapping[str, Tree], indent: int) -> Iterator[str]:
    """Yield the lines of a map, in an order that does not depend on how it was made."""
    # Keys that identify an object come first, for its readers.
    first = [key for key in ("apiVersion", "kind", "name") if key in tree]
    for key in (*first, *sorted(tree.keys() - set(first))):
        yield from _entry(f"{_scalar(key)}:", tree[key], indent)


def _entry(lead: str, tree: Tree, indent: int) -> Iterator[str]:
    """Yield the lines of a value behind its key, or of an item behind its dash."""
    start = " " * indent + lead
    match tree:
        case Conditional():
            yield f"{{{{- if {tree.condition} }}}}"
            yield from _entry(lead, tree.then, indent)
            if tree.otherwise is not ABSENT:
                yield "{{- else }}"
                yield from _entry(lead, tree.otherwise, indent)
            yield "{{- end }}"
        case Inline():
            yield f"{start} {tree.text}"
        case Multiline():
            yield start
            yield f"{' ' * (indent + 2)}{{{{- {tree.text} | nindent {indent + 2} }}}}"
        case Items():
            yield f"{{{{- with {tree.value} }}}}"
            yield f"{' ' * indent}{{{{- toYaml . | nindent {indent} }}}}"
            yield "{{- end }}"
        case dict() if tree and lead == "-":
            rest = list(_lines(tree, indent + 2))
            yield from (
                (start, *rest) if rest[0].startswith("{{") else (f"{start} {rest[0].strip()}", *rest[1:])
            )
        case dict() if tree:
            yield start
            yield from _lines(tree, indent + 2)
        case list() if tree:
            yield from _list(start, tree, indent + 2)
        case str() if "\n" in tree:
            # The first is for a text that ends with a newline, the second for one that does not.
            yield f"{start} {'|' if tree.endswith('\n') else '|-'}"
            for line in tree.removesuffix("\n").split("\n"):
                yield f"{' ' * (indent + 2)}{_escaped(line)}" if line else ""
        case _:
            yield f"{start} {_scalar(tree)}"


def _list(start: str, items: Sequence[Tree], indent: int) -> Iterator[str]:
    conditions = [
        item.condition if isinstance(item, Conditional) else item.value
        for item in items
        if isinstance(item, (Conditional, Items)) and getattr(item, "otherwise", ABSENT) is ABSENT
    ]
    # A key whose items are all left out would be null.
    optional = len(conditions) == len(items)
    if optional:
        yield f"{{{{- if {combined('or', conditions)} }}}}"
    yield start
    for item in items:
        yield from _entry("-", item, indent)
    if optional:
        yield "{{- end }}"


def _scalar(value: object) -> str:
    shown = yaml.safe_dump(value, width=WIDTH, allow_unicode=True)
    return _escaped(shown.removesuffix("\n").removesuffix("\n..."))


def _escaped(text: str) -> str:
    return re.sub(r"\{\{", '{{ "{{" }}', text)
