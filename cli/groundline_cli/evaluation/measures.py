"""Measures of rankings, as pure functions.

They follow trec_eval and BEIR: recall over the relevant documents of a query, the reciprocal rank of the
first of them, and nDCG with linear gain and a logarithmic discount, each averaged over queries.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from groundline_cli.evaluation.sets import Query

DEPTHS: Final = (5, 10, 20)
"""Ranks at which recall and content share are taken."""
RANK_DEPTH: Final = 10
"""Rank at which MRR and nDCG are cut."""


def ranking_measures(
    query: Query, ranking: Sequence[str], contents: Mapping[str, bytes | None]
) -> dict[str, float]:
    """Return each measure of a ranking for a query with a relevant document, by name.

    The ranking holds ids of documents, each once, best first. The share of contents is left out if the
    contents of a relevant document are not known.
    """
    found = {f"recall@{k}": recall(ranking, query.relevance, k) for k in DEPTHS}
    found[f"mrr@{RANK_DEPTH}"] = reciprocal_rank(ranking, query.relevance, RANK_DEPTH)
    found[f"ndcg@{RANK_DEPTH}"] = ndcg(ranking, query.relevance, RANK_DEPTH)
    if all(contents.get(document_id) for document_id in query.relevance):
        for k in DEPTHS:
            found[f"content@{k}"] = content_share(ranking, query.relevance, contents, k)
    return found


def unique(ids: Iterable[str]) -> list[str]:
    """Return each id once, where it came first: a document counts by its best chunk."""
    return list(dict.fromkeys(ids))


def recall(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant ids that are among the first k."""
    return len(set(ranking[:k]) & set(relevant)) / len(relevant)


def precision(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Return the share of the ids that are relevant; 0 without any."""
    return len(set(ranking) & set(relevant)) / len(ranking) if ranking else 0.0


def content_share(
    ranking: Sequence[str], relevant: Collection[str], contents: Mapping[str, bytes | None], k: int
) -> float:
    """Return the share of the relevant ids' distinct contents that are among the contents of the first k."""
    golden = {contents[document_id] for document_id in relevant}
    return len(golden & {contents.get(document_id) for document_id in ranking[:k]}) / len(golden)


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1 / rank of the first relevant id among the first k, or 0."""
    return next((1 / rank for rank, item in enumerate(ranking[:k], start=1) if item in relevant), 0.0)


def ndcg(ranking: Sequence[str], relevance: Mapping[str, int], k: int) -> float:
    """Compute normalised discounted cumulative gain at k (Järvelin and Kekäläinen, TOIS 2002), gain =
    relevance."""
    ideal = sorted(relevance.values(), reverse=True)[:k]
    return _dcg([relevance.get(item, 0) for item in ranking[:k]]) / _dcg(ideal)


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def kappa(pairs: Sequence[tuple[object, object]]) -> float:
    """Return Cohen's kappa of two judges' labels: their agreement beyond what chance would give, 1 at most;
    0 where chance alone would have them always agree."""
    expected = (
        sum(
            sum(first == label for first, _ in pairs) * sum(second == label for _, second in pairs)
            for label in {first for first, _ in pairs}
        )
        / len(pairs) ** 2
    )
    observed = sum(first == second for first, second in pairs) / len(pairs)
    return 0.0 if expected == 1 else (observed - expected) / (1 - expected)
