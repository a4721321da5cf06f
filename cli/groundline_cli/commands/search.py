"""groundline search"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import click
from groundline_client import JsonObject, to_json
from groundline_client.models import (
    Chunk,
    CutPassage,
    Passage,
    ScoreComponent,
    ScoreExplanation,
    SearchResponse,
)

from groundline_cli.commands.as_of import as_of_option
from groundline_cli.commands.ask import print_degraded
from groundline_cli.commands.gateway import collections_option, json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import one_line, print_columns, print_json, printable, shown_enum, summary

_TITLE_LENGTH: Final = 120
_SNIPPET_LENGTH: Final = 400
_PLACE_LENGTH: Final = 60
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"

_STRATEGIES: Final = ("none", "weighted", "cross_encoder", "api", "llm")
_WEIGHTS: Final = ("semantic", "vector", "position", "recency", "type", "keyword", "proximity")
_SOURCE_TYPES: Final = ("file", "object", "web")

_SHARE: Final = click.FloatRange(0, 1)
_WEIGHT: Final = click.FloatRange(min=0)
_LIMIT: Final = click.IntRange(1, 1000)


class _Pair(click.ParamType[tuple[str, float]]):
    """A parameter of the form NAME=NUMBER, with a known name."""

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
_RETRIEVAL: Final = {
    "mode": "mode",
    "keyword_limit": "keywordLimit",
    "semantic_limit": "semanticLimit",
    "ef_search": "efSearch",
    "iterative_scan": "iterativeScan",
    "min_similarity": "minSimilarity",
    "min_bm25": "minBm25",
    "adjacent": "adjacentChunks",
    "correct_spelling": "correctSpelling",
    "index": "index",
}
_RERANK: Final = {
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
    "max_per_document": "maxPerDocument",
    "explain": "includeCut",
}
_ENUMS: Final = {
    "mode": "RETRIEVAL_MODE_",
    "iterative_scan": "ITERATIVE_SCAN_",
    "index": "INDEX_CHOICE_",
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
@click.option(
    "--correct-spelling/--no-correct-spelling",
    default=None,
    help="Whether misspelled words of the query are corrected. Default: yes.",
)
@click.option(
    "--index",
    type=click.Choice(["current", "candidate", "previous"]),
    help="Which index is read: the one in use, what a re-index holds back, or what was kept of before.",
)
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
@click.option("--max-per-document", type=click.IntRange(1, 100), help="Maximum passages of one document.")
@click.option(
    "--facet",
    "facets",
    multiple=True,
    metavar="FIELD",
    help="Count the documents by their values of a field, such as team or $mime_type; may be repeated.",
)
@as_of_option
@click.option("--explain", is_flag=True, default=None, help="Print why each passage stands where it does.")
@json_option
@with_gateway
def search(
    connection: Connection,
    /,
    query: str,
    collections: tuple[str, ...],
    condition: JsonObject | None,
    facets: tuple[str, ...],
    as_of: datetime | None,
    explain: bool | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Print the passages that fit QUERY best, without writing an answer.

    Scores are comparable within one search only. With --json: the response of POST /api/search, with
    what was cut if --explain is given.
    """
    given["explain"] = explain
    parts = {"retrieval": _part(given, _RETRIEVAL), "rerank": _part(given, _RERANK)}
    options = {name: part for name, part in parts.items() if part}
    response = run(
        connection,
        lambda client: client.search(
            query,
            collection_ids=collections,
            filter=condition,
            options=options,
            include_highlights=not explain,
            facets=facets,
            as_of=as_of,
        ),
    )
    if as_json:
        print_json(to_json(response))
        return
    if not response.passages:
        click.echo("nothing found", err=True)
    elif explain:
        _print_explanations(response)
    else:
        for rank, passage in enumerate(response.passages, start=1):
            _print_passage(rank, passage)
    for facet in response.facets:
        rows = [[json.dumps(each.value, ensure_ascii=False), each.document_count] for each in facet.values]
        _print_table(printable(facet.field), ["VALUE", "DOCUMENTS"], rows)
        if facet.has_more:
            click.echo("and more")
    for each in response.corrections:
        _note_correction(each.given, each.used)
    print_degraded(response.degraded)


def _note_correction(given: str, used: str) -> None:
    words = (summary(word, length=_PLACE_LENGTH) for word in (used, given))
    click.echo(click.style('searched for "{}" in place of "{}"'.format(*words), dim=True), err=True)


def _part(given: JsonObject, names: dict[str, str]) -> JsonObject:
    """Return the fields of a message that were given."""
    values = {field: _value(name, given[name]) for name, field in names.items()}
    return {field: value for field, value in values.items() if value not in (None, {})}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(value)
    return f"{_ENUMS[name]}{value.upper()}" if name in _ENUMS and value is not None else value


def _print_passage(rank: int, passage: Passage) -> None:
    chunk = passage.chunk or Chunk()
    title = click.style(summary(chunk.title, length=_TITLE_LENGTH), bold=True)
    click.echo(f"{rank:>3}. {passage.score:.4f}  {title} — {one_line(chunk.uri)}")
    before = [each.text for each in passage.adjacent_chunks if each.chunk_index <= chunk.chunk_index]
    after = [each.text for each in passage.adjacent_chunks if each.chunk_index > chunk.chunk_index]
    around = [[summary(text, length=_SNIPPET_LENGTH) for text in texts] for texts in (before, after)]
    for line in [*around[0], _found_part(passage), *around[1]]:
        click.echo(f"     {line}")


def _found_part(passage: Passage) -> str:
    """Return the part of a passage's text with the words of the query, which a terminal shows in bold."""
    text, found = (passage.chunk or Chunk()).text, passage.highlights
    if found is None or found.snippet is None:  # from a gateway of an earlier release
        return summary(text, length=_SNIPPET_LENGTH)
    at, end = found.snippet.start_offset, found.snippet.end_offset
    pieces = [_ELLIPSIS] if text[:at].strip() else []
    for word in found.words:
        if at <= word.start_offset < word.end_offset <= end:
            pieces += [one_line(text[at : word.start_offset])]
            pieces += [click.style(one_line(text[word.start_offset : word.end_offset]), bold=True)]
            at = word.end_offset
    pieces += [one_line(text[at:end]), _ELLIPSIS if text[end:].strip() else ""]
    return "".join(pieces)


def _print_explanations(response: SearchResponse) -> None:
    """Print passages, near-duplicates and cut candidates, with their scores in each stage."""
    ranked = list(enumerate(response.passages, start=1))
    weights = {each.name: each.weight for _, passage in ranked for each in _components(passage)}
    headings = ["#", "SCORE", "FUSED", "BM25", "COSINE", *(f"{n.upper()} ×{w:g}" for n, w in weights.items())]
    rows = [
        [
            str(rank),
            f"{passage.score:.4f}",
            *_searched(passage),
            *_cells(passage, list(weights)),
            _location(passage.chunk),
        ]
        for rank, passage in ranked
    ]
    print_columns([*headings, "PASSAGE"], rows)
    _print_table(
        "near-duplicates",
        ["OF", "SIMILARITY", "PASSAGE"],
        [
            [str(rank), f"{each.similarity:.3f}", _location(each.chunk)]
            for rank, passage in ranked
            for each in passage.alternatives
        ],
    )
    _print_table(
        "cut",
        ["RULE", "SCORE", "FUSED", "BM25", "COSINE", "CHUNK"],
        [
            [
                each.rule.name.lower(),
                f"{_explanation(each).final_score:.4f}",
                *_searched(each),
                each.chunk_id,
            ]
            for each in response.cut
        ],
    )
    if response.timings:
        shown = (f"{shown_enum(each.stage)} {each.duration_ms:.1f} ms" for each in response.timings)
        click.echo(f"\n{', '.join(shown)}")


def _print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        click.echo(f"\n{title}")
        print_columns(headings, rows)


def _explanation(explained: Passage | CutPassage) -> ScoreExplanation:
    return explained.explanation or ScoreExplanation()


def _components(passage: Passage) -> Sequence[ScoreComponent]:
    return _explanation(passage).components


def _searched(explained: Passage | CutPassage) -> list[str]:
    """Return score and rank (after #) of the fusion and of both searches; a dash if a search did not find
    it."""
    explanation = _explanation(explained)
    fused = f"{explanation.fused_score:.4f} #{explanation.fused_rank}"
    arms = (explanation.keyword, explanation.semantic)
    return [fused, *(f"{arm.score:.3f} #{arm.rank}" if arm else "–" for arm in arms)]


def _cells(passage: Passage, names: Sequence[str]) -> list[str]:
    values = {each.name: each.value for each in _components(passage)}
    return [f"{values[name]:.3f}" if name in values else "–" for name in names]


def _location(chunk: Chunk | None) -> str:
    chunk = chunk or Chunk()
    return summary(f"{chunk.title} — {chunk.uri} [{chunk.chunk_index}]", length=_PLACE_LENGTH)
