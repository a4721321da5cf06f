"""Maps from the confidence of answers to the share of right ones."""

import math
import random
from collections.abc import Sequence
from itertools import batched, pairwise
from statistics import fmean
from typing import Final

type Answers = Sequence[tuple[float, float]]
"""Confidence of each answer, and 1 if it is right, else 0."""
type Points = Sequence[tuple[float, float]]
"""Confidence and probability, both rising; straight between them and level beyond them."""

LEAST_ANSWERS: Final = 30
"""Number of answers below which nothing is fitted, and of which 5 have to be right and 5 wrong."""
_LEAST_FOR_STEPS: Final = 100
"""Number of answers from which isotonic regression is fitted in place of a curve of two parameters.
Niculescu-Mizil and Caruana (ICML 2005) find it better from 200 to 1,000 on; here groups of 10 are pooled
first."""
_LEAST_GROUP: Final = 10
_MOST_POINTS: Final = 20
_FOLDS: Final = 5
_SEED: Final = 27
_STEPS: Final = 50
_EDGE: Final = 0.01


def fitted(answers: Answers) -> Points:
    """Fit a map: by isotonic regression (pool adjacent violators; Zadrozny and Elkan, KDD 2002), or by Platt
    scaling if there are few answers."""
    return _isotonic(answers) if len(answers) >= _LEAST_FOR_STEPS else _sigmoid(answers)


def mapped(points: Points, confidence: float) -> float:
    """Return the probability that belongs to a confidence."""
    for (low, below), (high, above) in pairwise(points):
        if low <= confidence <= high:
            return below + (confidence - low) / (high - low) * (above - below)
    return points[0 if confidence < points[0][0] else -1][1]


def cross_validated(answers: Answers) -> list[tuple[float, float]]:
    """Return each answer with its confidence by a map that was fitted on the others, in five parts."""
    order = list(range(len(answers)))
    random.Random(_SEED).shuffle(order)  # noqa: S311 (nothing is secret here)
    found = []
    for part in (set(order[start::_FOLDS]) for start in range(_FOLDS)):
        points = fitted([answers[place] for place in order if place not in part])
        found += [(mapped(points, answers[place][0]), answers[place][1]) for place in sorted(part)]
    return found


def _isotonic(answers: Answers) -> Points:
    size = max(_LEAST_GROUP, math.ceil(len(answers) / _MOST_POINTS))
    blocks: list[list[tuple[float, float]]] = []
    for group in batched(sorted(answers), size):
        blocks.append(list(group))
        while len(blocks) > 1 and not _rises(blocks[-2], blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    points = [(_stated(block), _right(block)) for block in blocks]
    return points if len(points) > 1 else [(0.0, points[0][1]), (1.0, points[0][1])]


def _rises(first: Answers, second: Answers) -> bool:
    return _right(first) < _right(second) and _stated(first) < _stated(second)


def _stated(block: Answers) -> float:
    return fmean(stated for stated, _ in block)


def _right(block: Answers) -> float:
    return fmean(right for _, right in block)


def _sigmoid(answers: Answers) -> Points:
    """Fit a logistic curve over the log-odds by Newton's method, with Platt's targets (1999), which are not
    quite 0 and 1."""
    rights = sum(right for _, right in answers)
    wrongs = len(answers) - rights
    rows = [
        (_log_odds(stated), (rights + 1) / (rights + 2) if right else 1 / (wrongs + 2))
        for stated, right in answers
    ]
    slope, offset = 0.0, math.log((rights + 1) / (wrongs + 1))
    for _ in range(_STEPS):
        first = second = across = one = many = 0.0
        for place, target in rows:
            chance = _logistic(slope * place + offset)
            weight = chance * (1 - chance)
            first += (chance - target) * place
            second += chance - target
            many += weight * place * place
            across += weight * place
            one += weight
        scale = (many + _EDGE) * (one + _EDGE) - across * across
        slope -= ((one + _EDGE) * first - across * second) / scale
        offset -= ((many + _EDGE) * second - across * first) / scale
    slope = max(slope, 0.0)  # of a confidence that says the opposite, nothing is kept
    return [(tenth / 10, _logistic(slope * _log_odds(tenth / 10) + offset)) for tenth in range(11)]


def _log_odds(chance: float) -> float:
    chance = min(max(chance, _EDGE), 1 - _EDGE)
    return math.log(chance / (1 - chance))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
