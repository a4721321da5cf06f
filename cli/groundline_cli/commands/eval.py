"""groundline eval"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import AsyncClient, JsonObject

from groundline_cli.commands.eval_create import create_set
from groundline_cli.commands.eval_sweep import sweep
from groundline_cli.commands.evaluation_tables import (
    print_comparison,
    print_evaluation,
    print_losses,
)
from groundline_cli.commands.evaluation_work import (
    WORSE_EXIT_CODE,
    measured_collection,
    modes_option,
    question_bar,
    run_key,
    search_modes,
)
from groundline_cli.commands.gateway import json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.asking import Journal, ask_all, judge_claims
from groundline_cli.evaluation.comparing import Baseline, BaselineComparison
from groundline_cli.evaluation.loading import (
    set_settings,
)
from groundline_cli.evaluation.part_file import part_path
from groundline_cli.evaluation.report import report
from groundline_cli.evaluation.results import Agreement, Evaluation
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet
from groundline_cli.terminal import print_json

_DEFAULT_MODES: Final = "keyword,semantic,hybrid,hybrid+weighted"
_INTERRUPTED_EXIT_CODE: Final = 130


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Extent of a measurement."""

    directory: Path
    modes: tuple[str, ...]
    answers: bool
    collection: str | None
    index: str | None
    settings: JsonObject
    keep: bool
    limit: int | None
    concurrency: int
    output: Path | None
    baseline: Path | None
    max_drop: float | None
    html: Path | None


class _EvaluationGroup(click.Group):
    """Commands of which `run` need not be named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("eval", cls=_EvaluationGroup, short_help="Measure retrieval and answers.")
def evaluate() -> None:
    """Measure retrieval and answers on an evaluation set.

    `groundline eval DIRECTORY` is short for `groundline eval run DIRECTORY`.
    """


evaluate.add_command(create_set)
evaluate.add_command(sweep)


@evaluate.command("run", short_help="Measure a set, and compare it with an earlier measurement.")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@modes_option(_DEFAULT_MODES)
@click.option("--answers", is_flag=True, help="Ask each question, and measure the answers, too.")
@click.option(
    "--collection",
    metavar="NAME",
    help="Collection to load the set into. Default: eval-<folder>. Without corpus.jsonl: the collection to "
    "measure, which stays as it is.",
)
@click.option(
    "--index",
    type=click.Choice(["current", "candidate", "previous"]),
    help="Index of the collection to measure: the one in use, what a re-index holds back, or what was kept.",
)
@click.option("--language", default="english", show_default=True, help="Lexical language of the collection.")
@click.option(
    "--settings",
    metavar="JSON",
    callback=json_object,
    help="Further settings of the collection, as in CollectionSettings. Default: a row is one chunk.",
)
@click.option("--keep", is_flag=True, help="Keep the collection, so that the next run need not load it.")
@click.option("--limit", type=click.IntRange(min=1), help="Measure only the first questions of the set.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Questions that are answered at a time.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all figures, those of each question too, as JSON. Beside it FILE.part keeps the answers "
    "until then: a run that was stopped goes on from it.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare with an earlier --output, question by question.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(min=0),
    metavar="X",
    help="Exit with 5 if a measure is worse than in the baseline by more than this and p is below .05, and "
    "name the questions that became worse.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page with plots, and the questions that went wrong.",
)
@json_option
@with_gateway
def run_evaluation(
    connection: Connection, /, language: str, settings: JsonObject | None, as_json: bool, **options: Any
) -> None:
    """Measure retrieval and answers on an evaluation set.

    DIRECTORY holds corpus.jsonl (id, title, text), queries.jsonl (id, text) and qrels.tsv (a heading, then
    query_id, doc_id, relevance). Where there is a documents.jsonl (id, title), a row without a title that
    names its document_id has the title of that document. Each row of the corpus becomes one document of a
    collection of its own, by the ordinary ingestion, and each query is searched for in each mode. Without
    corpus.jsonl the documents of --collection are measured; doc_id is then the uri of one of them.

    R@k is the share of relevant documents among the first k; C@k the share of relevant texts, for which a
    duplicate is as good as the document judged. Behind each figure stands its interval at 95 %.

    With --answers each question is asked as well. A query may hold accepted `answers`, a list of texts, of
    which a right answer contains one. What has neither a relevant document nor accepted answers, or says
    `"answerable": false`, is to be refused. If there is a claims.jsonl (text; verdict: supported, refuted or
    not_found), its claims are verified first, and the judge's agreement with the labels (kappa) is printed
    before all other figures.

    Exit codes: 0 measured, 1 failed, 2 wrong usage, 5 significantly worse than the baseline, 130 stopped.
    """
    wanted = _Wanted(settings=set_settings(language, settings), **options)
    if wanted.max_drop is not None and wanted.baseline is None:
        raise click.UsageError("--max-drop needs a --baseline")
    measured = _Measurement(wanted)
    comparison: BaselineComparison | None = None
    try:
        baseline = Baseline.read(wanted.baseline) if wanted.baseline else None
        run(connection, measured.work)
        if baseline is not None:
            comparison = BaselineComparison.of(baseline, measured.result)
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error
    except KeyboardInterrupt:
        _print_interrupted(measured, wanted)
        raise SystemExit(_INTERRUPTED_EXIT_CODE) from None
    result = measured.result
    if wanted.output is not None:
        _write(wanted.output, result)
        measured.journal.remove()
    if wanted.html is not None:
        wanted.html.write_text(report(result, comparison), encoding="utf-8")
    _print(result, comparison, as_json=as_json)
    losses = comparison.losses(wanted.max_drop) if comparison and wanted.max_drop is not None else []
    if losses:
        print_losses(losses)
        raise SystemExit(WORSE_EXIT_CODE)


class _Measurement:
    """A measurement under way; what it has found so far can be read when it is stopped."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self.journal = Journal(None, "")
        self.asked = 0
        self._result: Evaluation | None = None

    @property
    def result(self) -> Evaluation:
        """The run, once it has begun."""
        if self._result is None:
            raise CommandFailedError("nothing was measured")
        return self._result

    async def work(self, client: AsyncClient) -> None:
        """Measure. Raises DatasetError, GatewayError."""
        wanted = self._wanted
        if not wanted.modes and not wanted.answers:
            raise click.UsageError("with --modes none there is only --answers to measure")
        async with measured_collection(
            client, wanted.directory, wanted.collection, wanted.settings, keep=wanted.keep
        ) as (dataset, collection):
            queries = dataset.queries[: wanted.limit]
            judged = [query for query in queries if query.relevance]
            if wanted.modes and not judged:
                raise DatasetError(
                    f"{wanted.directory}: no question has a relevant document: measure --answers "
                    "with --modes none"
                )
            result = self._result = Evaluation.of(dataset, queries if wanted.answers else judged)
            retrieval = {"index": f"INDEX_CHOICE_{wanted.index.upper()}"} if wanted.index else {}
            await search_modes(client, result, dataset, collection, wanted.modes, retrieval=retrieval)
            if not wanted.answers:
                return
            await self._judge_the_judge(client, dataset, collection, result)
            self.asked = len(queries)
            self.journal = Journal(
                part_path(wanted.output), run_key(dataset, collection, {**wanted.settings, **retrieval})
            )
            try:
                with question_bar("asking", len(queries), done=len(self.journal.outcomes)) as advance:
                    await ask_all(
                        client,
                        queries,
                        collection,
                        concurrency=wanted.concurrency,
                        journal=self.journal,
                        options={"retrieval": retrieval} if retrieval else None,
                        on_answer=advance,
                    )
            finally:
                result.add_outcomes(self.journal.outcomes, dataset)

    async def _judge_the_judge(
        self, client: AsyncClient, dataset: EvaluationSet, collection: str, result: Evaluation
    ) -> None:
        """Measure how far the judge of claims agrees with the set's labels, which says what it is worth."""
        if not dataset.claims:
            return
        with question_bar("judging", len(dataset.claims)) as advance:
            judged = await judge_claims(
                client, dataset.claims, collection, concurrency=self._wanted.concurrency, on_claim=advance
            )
        result.agreement = Agreement.of(judged)


def _write(path: Path, result: Evaluation) -> None:
    """Write the figures, and below them a line for each question, so that versions can be compared."""
    head = json.dumps(result.as_json(), indent=1).removesuffix("\n}")
    records = ",\n".join(json.dumps(record, ensure_ascii=False) for record in result.records_as_json())
    path.write_text(f'{head},\n "records": [\n{records}\n ]\n}}\n', encoding="utf-8")


def _print(result: Evaluation, comparison: BaselineComparison | None, *, as_json: bool) -> None:
    if as_json:
        print_json({**result.as_json(), **({"comparison": comparison.as_json()} if comparison else {})})
        return
    print_evaluation(result)
    if comparison is not None:
        print_comparison(comparison)


def _print_interrupted(measured: _Measurement, wanted: _Wanted) -> None:
    if outcomes := measured.journal.outcomes:
        print_evaluation(measured.result)
        click.echo(f"stopped after {len(outcomes)} of {measured.asked} answers", err=True)
        if wanted.output is not None:
            click.echo("the same command goes on from there", err=True)
