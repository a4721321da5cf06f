"""Metrics of answers, as users get them."""

from typing import Final

from groundline_runtime.metrics.declaring import SECONDS, Counter, Histogram

ANSWERS: Final = Counter(
    "groundline.answers",
    "Answers by finish reason, whether they are grounded, and whether something was skipped.",
    unit="{answer}",
    labels=("finish_reason", "grounded", "degraded"),
)
FIRST_DELTA: Final = Histogram(
    "groundline.answer.time_to_first_delta",
    "Time from a question to the first text of its answer.",
    unit="s",
    buckets=SECONDS,
)
ANSWER_TOKENS: Final = Counter(
    "groundline.answer.tokens",
    "Tokens of answers, by model, client and collection; several collections are named `several`.",
    unit="{token}",
    labels=("model", "client", "collection", "gen_ai.token.type"),
)
ANSWER_COST: Final = Counter(
    "groundline.answer.cost",
    "Price of answers, searches for them included, where it is known, by model, client and collection.",
    unit="{USD}",
    labels=("model", "client", "collection"),
)
RATINGS: Final = Counter(
    "groundline.answer.ratings",
    "Feedback on answers, by rating and problem.",
    unit="{rating}",
    labels=("rating", "problem"),
)
VERIFIED_CLAIMS: Final = Counter(
    "groundline.verified_claims",
    "Claims of verified texts, by verdict.",
    unit="{claim}",
    labels=("verdict",),
)
