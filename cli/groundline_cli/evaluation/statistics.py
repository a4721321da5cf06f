"""How certain figures are: bootstrap intervals and a paired test, both from fixed seeds.

Both take a statistic of rows, one for each question, so that they serve means and calibration errors alike.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

SIGNIFICANT: Final = 0.05
"""Probability below which a difference is taken for more than chance; intervals leave out as much."""
RESAMPLES: Final = 1_000
DRAWS: Final = 2_000
_SEED: Final = 27


def bootstrap_interval[T](
    items: Sequence[T], statistic: Callable[[Sequence[T]], float]
) -> tuple[float, float]:
    """Return the interval that the statistic of 95 % of resampled sets lies in (percentiles; Efron and
    Tibshirani, 1993), for at least one item."""
    chance = random.Random(_SEED)  # noqa: S311 (nothing is secret here)
    found = sorted(statistic(chance.choices(items, k=len(items))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * SIGNIFICANT / 2)
    return found[cut], found[-cut - 1]


def randomisation_test[T](
    before: Sequence[T], after: Sequence[T], statistic: Callable[[Sequence[T]], float]
) -> float:
    """Return the probability of a difference at least as large as that between two runs over the same
    questions, if it does not matter which run a question's row is of (Smucker et al., CIKM 2007)."""
    observed = abs(statistic(after) - statistic(before))
    if not observed:
        return 1.0
    chance = random.Random(_SEED)  # noqa: S311 (nothing is secret here)
    pairs = list(zip(before, after, strict=True))
    reached = 0
    for _ in range(DRAWS):
        swapped = [pair if chance.random() < 0.5 else pair[::-1] for pair in pairs]
        difference = statistic([pair[1] for pair in swapped]) - statistic([pair[0] for pair in swapped])
        # Sums of the same numbers in another order differ in their last bits.
        reached += abs(difference) >= observed - 1e-12
    return (reached + 1) / (DRAWS + 1)
