"""groundline eval sweep"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import ApiError, AsyncClient

from groundline_cli.commands.evaluation_work import (
    is_stored,
    measured_collection,
    question_bar,
    run_key,
)
from groundline_cli.commands.gateway import json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.asking import Journal, ask_all, search_all
from groundline_cli.evaluation.loading import collection_name, set_settings
from groundline_cli.evaluation.part_file import PartFile, part_path
from groundline_cli.evaluation.results import Estimate, Evaluation
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet, Query
from groundline_cli.evaluation.sweep import SEARCH, Combination, RankedCombination, SweepPlan, digest, rank
from groundline_cli.terminal import print_columns, print_json

_BAD_REQUEST: Final = 400
_INTERRUPTED_EXIT_CODE: Final = 130
_NAME_LENGTH: Final = 50


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Extent of a sweep."""

    directory: Path
    file: Path
    collection: str | None
    language: str
    keep: bool
    limit: int | None
    concurrency: int
    output: Path | None
    write: str | None


@click.command(short_help="Find the best settings.")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--collection", metavar="NAME", help="Collection to measure, for a set without corpus.jsonl.")
@click.option("--language", default="english", show_default=True, help="Lexical language of the collections.")
@click.option("--keep", is_flag=True, help="Keep the collections, so that the next run need not load them.")
@click.option("--limit", type=click.IntRange(min=1), help="Measure only the first questions of the set.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Questions that are asked at a time.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUTPUT",
    help="Write all figures as JSON. Beside it OUTPUT.part keeps the combinations that were measured: a run "
    "that was stopped goes on from it.",
)
@click.option(
    "--write",
    metavar="COLLECTION",
    help="Make the best combination the settings of this collection, and what is asked without options.",
)
@json_option
@with_gateway
def sweep(connection: Connection, /, as_json: bool, **options: Any) -> None:
    """Measure each combination of settings on the set in DIRECTORY, and rank them.

    FILE is TOML. Below `settings` are settings of the collection, as in CollectionSettings, below `options`
    those of each question, as in ChatOptions; a list holds the values to try. `measure` names the figure that
    decides, by default ndcg@10; if it is one of answers, such as contains, each question is asked, and
    otherwise searched for.

    \b
      measure = "ndcg@10"
      [settings.chunking]
      chunkSize = [500, 1000, 2000]
      chunkOverlap = [0, 100]
      [options.rerank]
      fusion = ["FUSION_METHOD_RRF", "FUSION_METHOD_WEIGHTED"]

    Each combination of settings is loaded into a collection of its own; options alone need no other. A
    combination that the gateway refuses is left out and named.

    Every other question decides. The figure of the other half, which did not, says what to expect of the
    best.
    """
    wanted = _Wanted(**options)
    try:
        plan = SweepPlan.read(wanted.file)
        measured = _Sweep(wanted, plan)
        run(connection, measured.work)
        ranked = rank(plan, measured.figures)
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error
    except KeyboardInterrupt:
        click.echo("stopped; with --output, the same command goes on from there", err=True)
        raise SystemExit(_INTERRUPTED_EXIT_CODE) from None
    found = {
        "measure": plan.measure.name,
        "combinations": [_as_json(one) for one in ranked],
        "refused": measured.refused,
    }
    if wanted.output is not None:
        figures = {one.combination.key: one.figures for one in ranked}
        wanted.output.write_text(json.dumps({**found, "figures": figures}) + "\n", encoding="utf-8")
        measured.part.remove()
    if as_json:
        print_json(found)
    else:
        _print(plan, ranked)
    if wanted.write is not None:
        _write(connection, wanted.write, ranked[0].combination)


class _Sweep:
    """A sweep under way."""

    def __init__(self, wanted: _Wanted, plan: SweepPlan) -> None:
        self._wanted = wanted
        self._plan = plan
        self.part = PartFile(None, "")
        self.figures: dict[str, Mapping[str, Any]] = {}
        """Figures by combination, then as of a set's questions."""
        self.refused: dict[str, str] = {}
        """Why the gateway refused a combination, by its label."""

    async def work(self, client: AsyncClient) -> None:
        """Measure what earlier runs have not. Raises DatasetError, GatewayError."""
        wanted, plan = self._wanted, self._plan
        groups = plan.by_settings()
        if is_stored(wanted.directory) and (len(groups) > 1 or groups[0][0].settings):
            raise DatasetError(f"{wanted.directory} has no corpus.jsonl: `options` alone can be varied")
        for number, combinations in enumerate(groups, 1):
            click.echo(
                f"settings {number} of {len(groups)}: {json.dumps(combinations[0].settings)}", err=True
            )
            try:
                await self._measure_all(client, combinations)
            except ApiError as error:
                if error.http_status != _BAD_REQUEST:
                    raise
                self._refuse(combinations, error)

    async def _measure_all(self, client: AsyncClient, combinations: Sequence[Combination]) -> None:
        """Measure combinations of one collection."""
        wanted = self._wanted
        settings = set_settings(wanted.language, combinations[0].settings)
        name = wanted.collection
        if not is_stored(wanted.directory):
            dataset = EvaluationSet.load(wanted.directory)
            self._resume(dataset)
            if all(one.key in self.figures for one in combinations):
                return
            name = f"{collection_name(dataset)[:_NAME_LENGTH]}-{digest(settings)}"
        async with measured_collection(client, wanted.directory, name, settings, keep=wanted.keep) as (
            dataset,
            collection,
        ):
            self._resume(dataset)
            for one in combinations:
                if one.key in self.figures:
                    continue
                try:
                    figures = await self._measure(client, dataset, collection, one)
                except ApiError as error:
                    if error.http_status != _BAD_REQUEST:
                        raise
                    self._refuse([one], error)
                    continue
                self.figures[one.key] = figures
                self.part.add({"combination": one.key, "figures": figures})

    async def _measure(
        self, client: AsyncClient, dataset: EvaluationSet, collection: str, combination: Combination
    ) -> Mapping[str, Any]:
        """Return the figures of each question."""
        queries = self._queries(dataset)
        result = Evaluation.of(dataset, queries)
        with question_bar(combination.label, len(queries)) as advance:
            if self._plan.group == SEARCH:
                options = {
                    name: value
                    for name, value in combination.options.items()
                    if name in ("retrieval", "rerank")
                }
                rankings = await search_all(
                    client,
                    queries,
                    collection,
                    options,
                    concurrency=self._wanted.concurrency,
                    on_search=advance,
                )
                result.add_rankings(SEARCH, rankings, dataset)
            else:
                outcomes = await ask_all(
                    client,
                    queries,
                    collection,
                    concurrency=self._wanted.concurrency,
                    journal=Journal(None, ""),
                    options=combination.options,
                    on_answer=advance,
                )
                if errors := [outcome.error for outcome in outcomes.values() if outcome.error]:
                    self.refused[combination.label] = f"{len(errors)} questions: {errors[0]}"
                result.add_outcomes(outcomes, dataset)
        return {record.id: record.figures for record in result.questions}

    def _queries(self, dataset: EvaluationSet) -> Sequence[Query]:
        queries = dataset.queries[: self._wanted.limit]
        if self._plan.group == SEARCH:
            queries = [query for query in queries if query.relevance]
        if not queries:
            raise DatasetError(f"{self._wanted.directory}: no question has a relevant document")
        return queries

    def _resume(self, dataset: EvaluationSet) -> None:
        """Take over what an earlier run has measured."""
        if self.figures or self.part.rows:
            return
        wanted = self._wanted
        described = {"group": self._plan.group, "language": wanted.language, "limit": wanted.limit}
        self.part = PartFile(part_path(wanted.output), run_key(dataset, wanted.collection or "", described))
        for row in self.part.rows:
            self.figures[row["combination"]] = row["figures"]

    def _refuse(self, combinations: Sequence[Combination], error: ApiError) -> None:
        for one in combinations:
            self.refused[one.label] = str(error)
            click.echo(f"left out: {one.label}: {error}", err=True)


def _as_json(one: RankedCombination) -> dict[str, Any]:
    return {
        "label": one.combination.label,
        "settings": one.combination.settings,
        "options": one.combination.options,
        "chosenBy": one.chosen_by,
        "all": asdict(one.estimate),
        "heldOut": one.held_out and asdict(one.held_out),
        "probability": one.probability,
    }


def _print(plan: SweepPlan, ranked: Sequence[RankedCombination]) -> None:
    rows = [
        (one.combination.label, one.chosen_by, _shown(one.held_out), _shown(one.estimate), one.probability)
        for one in ranked
    ]
    print_columns((plan.measure.title.upper(), "DECIDES", "HELD OUT", "ALL", "P AGAINST FIRST"), rows)


def _shown(estimate: Estimate | None) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})" if estimate else ""


def _write(connection: Connection, collection: str, best: Combination) -> None:
    run(connection, lambda client: client.update_collection(collection, settings=best.defaults()))
    click.echo(f"{collection} now has: {best.label}", err=True)
    if best.settings:
        click.echo(
            f"chunks that are there stay as they are until `groundline reindex {collection}`", err=True
        )
