"""Many settings measured on the same questions, to find the best."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

from groundline_client import JsonObject

from groundline_cli.evaluation.figures import ANSWERS, Measure, measures_of
from groundline_cli.evaluation.results import Estimate
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.evaluation.statistics import bootstrap_interval, randomisation_test

MAXIMUM_COMBINATIONS: Final = 100
SEARCH: Final = "search"
"""Group of the figures of searches; those of answers are in their own."""
_PARTS: Final = ("settings", "options", "measure")
_DEFAULT_MEASURE: Final = "ndcg@10"

type _Figures = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Figures by id of the question, group and name."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One choice of everything that is varied."""

    settings: JsonObject
    """Settings of the collection, as in CollectionSettings."""
    options: JsonObject
    """Options of each question, as in ChatOptions."""
    label: str
    """The varied values, for people."""

    @property
    def key(self) -> str:
        """A digest of both."""
        return digest([self.settings, self.options])

    def defaults(self) -> JsonObject:
        """Return both as the settings of a collection, whose defaults are then the options."""
        return {**self.settings, **{name: one for name, one in self.options.items() if name != "effort"}}


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Values that are tried, and the measure that decides."""

    combinations: Sequence[Combination]
    group: str
    measure: Measure

    @classmethod
    def read(cls, path: Path) -> "SweepPlan":
        """Read a TOML file with `settings`, `options` and `measure`, in which lists are varied. Raises
        DatasetError."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DatasetError(f"{path}: {error}") from error
        if unknown := [name for name in content if name not in _PARTS]:
            raise DatasetError(f"{path}: {unknown[0]} is not one of {', '.join(_PARTS)}")
        leaves = list(_leaves({name: content.get(name, {}) for name in _PARTS[:2]}))
        number = 1
        for _, values in leaves:
            number *= len(values)
        if not 1 < number <= MAXIMUM_COMBINATIONS:
            raise DatasetError(f"{path}: {number} combinations; there must be 2 to {MAXIMUM_COMBINATIONS}")
        group, measure = _measure(path, content.get("measure", _DEFAULT_MEASURE))
        choices = [[(name, value) for value in values] for name, values in leaves]
        varied = {name for name, values in leaves if len(values) > 1}
        return cls([_combination(choice, varied) for choice in product(*choices)], group, measure)

    def by_settings(self) -> list[list[Combination]]:
        """Group the combinations whose collection is the same."""
        groups: dict[str, list[Combination]] = {}
        for combination in self.combinations:
            groups.setdefault(digest(combination.settings), []).append(combination)
        return list(groups.values())


@dataclass(frozen=True, slots=True)
class RankedCombination:
    """A combination among the others."""

    combination: Combination
    chosen_by: float
    """The measure on the half of the questions that decides."""
    estimate: Estimate
    """The measure on all questions."""
    held_out: Estimate | None
    """The measure on the other half: what to expect, since chance favours the first of many."""
    probability: float
    """Probability of such a difference from the first if there were none, over all questions."""
    figures: _Figures = field(repr=False)


def rank(plan: SweepPlan, measured: Mapping[str, _Figures]) -> list[RankedCombination]:
    """Return the measured combinations (figures by key), the best first. Every other question decides; raises
    DatasetError if none has a figure."""
    found = [
        (combination, rows)
        for combination in plan.combinations
        if (rows := _rows(plan, measured.get(combination.key, {})))
    ]
    if not found:
        raise DatasetError(f"no question has a figure of {plan.measure.name}")
    statistic, sign = plan.measure.statistic, 1 if plan.measure.higher_is_better else -1
    ids = list(dict.fromkeys(name for _, rows in found for name in rows))
    deciding = set(ids[::2])

    def decides(rows: Mapping[str, Sequence[float]]) -> float:
        return statistic([row for name, row in rows.items() if name in deciding] or list(rows.values()))

    found.sort(key=lambda one: -sign * decides(one[1]))
    best = found[0][1]
    return [
        RankedCombination(
            combination,
            decides(rows),
            _estimate(plan.measure, list(rows.values())),
            _estimate(plan.measure, others)
            if (others := [row for name, row in rows.items() if name not in deciding])
            else None,
            _probability(plan.measure, best, rows),
            measured[combination.key],
        )
        for combination, rows in found
    ]


def digest(value: object) -> str:
    """Return a short digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _rows(plan: SweepPlan, figures: _Figures) -> dict[str, Sequence[float]]:
    rows: dict[str, Sequence[float]] = {}
    for name, groups in figures.items():
        for row in plan.measure.items([groups.get(plan.group, {})]):
            rows[name] = row
    return rows


def _estimate(measure: Measure, items: Sequence[Sequence[float]]) -> Estimate:
    low, high = bootstrap_interval(items, measure.statistic)
    return Estimate(measure.statistic(items), low, high, len(items))


def _probability(
    measure: Measure, best: Mapping[str, Sequence[float]], rows: Mapping[str, Sequence[float]]
) -> float:
    common = [name for name in best if name in rows]
    if not common:
        return 1.0
    return randomisation_test(
        [best[name] for name in common], [rows[name] for name in common], measure.statistic
    )


def _measure(path: Path, name: object) -> tuple[str, Measure]:
    known = {measure.name: (group, measure) for group in (SEARCH, ANSWERS) for measure in measures_of(group)}
    if name not in known:
        raise DatasetError(f"{path}: measure must be one of {', '.join(known)}")
    return known[str(name)]


def _leaves(
    table: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield the path of each value, and the values that it takes."""
    for name, value in table.items():
        path = (*prefix, name)
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value if isinstance(value, list) else [value]


def _combination(choice: Sequence[tuple[tuple[str, ...], Any]], varied: set[tuple[str, ...]]) -> Combination:
    parts: dict[str, JsonObject] = {"settings": {}, "options": {}}
    for (part, *path), value in choice:
        table = parts[part]
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
    label = ", ".join(f"{path[-1]} {value}" for path, value in choice if path in varied)
    return Combination(parts["settings"], parts["options"], label)
