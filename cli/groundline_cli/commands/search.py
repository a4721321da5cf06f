"""groundline search"""

from collections.abc import Sequence
from typing import Any

import click

from groundline_cli.client import JsonObject
from groundline_cli.commands.ask import print_degraded
from groundline_cli.commands.gateway import collections_option, json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable, summary

__all__ = ["search"]

_TITLE_LENGTH = 120
_SNIPPET_LENGTH = 400
_PLACE_LENGTH = 60

_STRATEGIES = ("none", "weighted", "cross_encoder", "api", "llm")
_WEIGHTS = ("semantic", "vector", "position", "recency", "type", "keyword", "proximity")
_SOURCE_TYPES = ("file", "object", "web")

_SHARE = click.FloatRange(0, 1)
_WEIGHT = click.FloatRange(min=0)
_LIMIT = click.IntRange(1, 1000)


class _Pair(click.ParamType[tuple[str, float]]):
    """NAME=NUMBER with a known name."""

    name = "name=number"

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        name, _, number = str(value).partition("=")
        if name not in self._names:
            self.fail(f"{name!r}: known are {', '.join(self._names)}", param, ctx)
        try:
            return name, float(number)
        except ValueError:
            self.fail(f"{number!r} is not a number", param, ctx)


# Click shows options in the order of their decorators; the field of the request follows each one's name.
_RETRIEVAL = {
    "mode": "mode",
    "keyword_limit": "keywordLimit",
    "semantic_limit": "semanticLimit",
    "ef_search": "efSearch",
    "iterative_scan": "iterativeScan",
    "min_similarity": "minSimilarity",
    "min_bm25": "minBm25",
    "adjacent": "adjacentChunks",
}
_RERANK = {
    "top_k": "topK",
    "fusion": "fusion",
    "rrf_k": "rrfK",
    "keyword_weight": "keywordWeight",
    "semantic_weight": "semanticWeight",
    "strategy": "strategy",
    "weights": "weights",
    "type_priorities": "typePriorities",
    "model": "model",
    "deduplication_threshold": "deduplicationThreshold",
    "mmr_lambda": "mmrLambda",
    "min_score": "minScore",
    "explain": "includeCut",
}
_ENUMS = {
    "mode": "RETRIEVAL_MODE_",
    "iterative_scan": "ITERATIVE_SCAN_",
    "fusion": "FUSION_METHOD_",
    "strategy": "RERANK_STRATEGY_",
}


@click.command(short_help="Print the passages that fit a query best.")
@click.argument("query")
@collections_option
@click.option(
    "--top-k", type=click.IntRange(1, 100), help="Maximum passages. Default: the collection's or 8."
)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "semantic", "keyword"]),
    help="Which searches run. Default: the collection's, or hybrid.",
)
@click.option(
    "--filter",
    "condition",
    metavar="JSON",
    callback=json_object,
    help='Condition on documents, such as \'{"team": "ops", "year": {"$gte": 2024}}\'.',
)
@click.option("--keyword-limit", type=_LIMIT, help="Maximum candidates from BM25. Default: 50.")
@click.option("--semantic-limit", type=_LIMIT, help="Maximum candidates from vector search. Default: 50.")
@click.option("--min-bm25", type=_WEIGHT, help="Drop BM25 candidates that score less.")
@click.option("--min-similarity", type=click.FloatRange(-1, 1), help="Drop vector candidates less similar.")
@click.option("--ef-search", type=_LIMIT, help="Size of the HNSW search list. Default: 100.")
@click.option(
    "--iterative-scan",
    type=click.Choice(["off", "strict_order", "relaxed_order"]),
    help="What a filtered vector search does that finds too little.",
)
@click.option("--adjacent", type=click.IntRange(0, 10), help="Chunks to add before and after each passage.")
@click.option("--fusion", type=click.Choice(["weighted", "rrf"]), help="How both searches become one list.")
@click.option("--rrf-k", type=_LIMIT, help="Constant of reciprocal rank fusion. Default: 60.")
@click.option("--keyword-weight", type=_WEIGHT, help="Weight of BM25 in the fusion.")
@click.option("--semantic-weight", type=_WEIGHT, help="Weight of vector search in the fusion.")
@click.option("--strategy", type=click.Choice(_STRATEGIES), help="How the fused list is reranked.")
@click.option(
    "--weight",
    "weights",
    multiple=True,
    type=_Pair(_WEIGHTS),
    help=f"Weight of a component of the weighted strategy: {', '.join(_WEIGHTS)}.",
)
@click.option(
    "--type-priority",
    "type_priorities",
    multiple=True,
    type=_Pair(_SOURCE_TYPES),
    help="Priority of a source type, 0 to 1, for the weighted strategy.",
)
@click.option("--model", metavar="NAME", help="Model of the strategy.")
@click.option("--deduplication-threshold", type=_SHARE, help="Similarity of near-duplicates; 0: keep them.")
@click.option("--mmr-lambda", type=_SHARE, help="Diversify: 1 is relevance only, 0 diversity only.")
@click.option("--min-score", type=float, help="Drop passages that score less.")
@click.option("--explain", is_flag=True, default=None, help="Print why each passage stands where it does.")
@json_option
@with_gateway
def search(
    connection: Connection,
    /,
    query: str,
    collections: tuple[str, ...],
    condition: JsonObject | None,
    explain: bool | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Print the passages that fit QUERY best, without writing an answer.

    Scores are comparable within one search only. With --json: the response of POST /api/search, with
    what was cut if --explain is given.
    """
    given["explain"] = explain
    options = {"retrieval": _part(given, _RETRIEVAL), "rerank": _part(given, _RERANK)}
    request: JsonObject = {
        "query": query,
        "collectionIds": list(collections),
        "options": {name: part for name, part in options.items() if part},
    }
    if condition is not None:
        request["filter"] = condition
    response = run(connection, lambda client: client.search(request))
    if as_json:
        print_json(response)
        return
    passages = response.get("passages", [])
    if not passages:
        click.echo("nothing found", err=True)
    elif explain:
        _print_explanations(response)
    else:
        for rank, passage in enumerate(passages, start=1):
            _print_passage(rank, passage)
    print_degraded(response)


def _part(given: JsonObject, names: dict[str, str]) -> JsonObject:
    """The fields of a message that were given."""
    values = {field: _value(name, given[name]) for name, field in names.items()}
    return {field: value for field, value in values.items() if value not in (None, {})}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(value)
    return f"{_ENUMS[name]}{value.upper()}" if name in _ENUMS and value is not None else value


def _print_passage(rank: int, passage: JsonObject) -> None:
    chunk = passage.get("chunk", {})
    title = click.style(summary(chunk.get("title", ""), length=_TITLE_LENGTH), bold=True)
    click.echo(f"{rank:>3}. {passage.get('score', 0):.4f}  {title} — {printable(chunk.get('uri', ''))}")
    before, after = _adjacent(passage)
    for text in [*before, chunk.get("text", ""), *after]:
        click.echo(f"     {summary(text, length=_SNIPPET_LENGTH)}")


def _adjacent(passage: JsonObject) -> tuple[list[str], list[str]]:
    """Texts before and after the passage in its document."""
    place = passage.get("chunk", {}).get("chunkIndex", 0)
    texts: tuple[list[str], list[str]] = ([], [])
    for chunk in passage.get("adjacentChunks", []):
        texts[chunk.get("chunkIndex", 0) > place].append(chunk.get("text", ""))
    return texts


def _print_explanations(response: JsonObject) -> None:
    """Passages, their near-duplicates, what was cut, and what searches and strategy said of each."""
    passages: list[JsonObject] = response["passages"]
    names = list(dict.fromkeys(each["name"] for passage in passages for each in _components(passage)))
    weights = {each["name"]: each.get("weight", 0) for passage in passages for each in _components(passage)}
    headings = ["#", "SCORE", "FUSED", "BM25", "COSINE", *(f"{n.upper()} ×{weights[n]:g}" for n in names)]
    rows = [
        [
            str(rank),
            f"{passage.get('score', 0):.4f}",
            *_searched(passage),
            *_cells(passage, names),
            _place(passage.get("chunk", {})),
        ]
        for rank, passage in enumerate(passages, start=1)
    ]
    print_columns([*headings, "PASSAGE"], rows)
    _print_table(
        "near-duplicates",
        ["OF", "SIMILARITY", "PASSAGE"],
        [
            [str(rank), f"{each.get('similarity', 0):.3f}", _place(each.get("chunk", {}))]
            for rank, passage in enumerate(passages, start=1)
            for each in passage.get("alternatives", [])
        ],
    )
    _print_table(
        "cut",
        ["RULE", "SCORE", "FUSED", "BM25", "COSINE", "CHUNK"],
        [
            [
                each.get("rule", "").removeprefix("CUT_RULE_").lower(),
                f"{each.get('explanation', {}).get('finalScore', 0):.4f}",
                *_searched(each),
                each.get("chunkId", ""),
            ]
            for each in response.get("cut", [])
        ],
    )
    timings = response.get("timings", [])
    if timings:
        shown = (f"{_stage(each)} {each.get('durationMs', 0):.1f} ms" for each in timings)
        click.echo(f"\n{', '.join(shown)}")


def _stage(timing: JsonObject) -> str:
    return printable(str(timing.get("stage", "")).removeprefix("STAGE_").lower().replace("_", " "))


def _print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        click.echo(f"\n{title}")
        print_columns(headings, rows)


def _components(explained: JsonObject) -> list[JsonObject]:
    components: list[JsonObject] = explained.get("explanation", {}).get("components", [])
    return components


def _searched(explained: JsonObject) -> list[str]:
    """Score and, after #, rank of fusion and both searches; a dash where a search did not find it."""
    explanation = explained.get("explanation", {})
    fused = f"{explanation.get('fusedScore', 0):.4f} #{explanation.get('fusedRank', 0)}"
    arms = (explanation.get(arm) for arm in ("keyword", "semantic"))
    return [fused, *(f"{arm.get('score', 0):.3f} #{arm.get('rank', 0)}" if arm else "–" for arm in arms)]


def _cells(passage: JsonObject, names: Sequence[str]) -> list[str]:
    values = {each["name"]: each.get("value", 0) for each in _components(passage)}
    return [f"{values[name]:.3f}" if name in values else "–" for name in names]


def _place(chunk: JsonObject) -> str:
    text = f"{chunk.get('title', '')} — {chunk.get('uri', '')} [{chunk.get('chunkIndex', 0)}]"
    return summary(text, length=_PLACE_LENGTH)
