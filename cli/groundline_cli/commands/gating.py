"""Gate of `groundline reindex` and `groundline import`: what has to pass before it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import AsyncClient, JsonObject

from groundline_cli.commands.evaluation_tables import print_comparison, print_losses
from groundline_cli.commands.evaluation_work import (
    WORSE_EXIT_CODE,
    is_stored,
    modes_option,
    question_bar,
    search_modes,
)
from groundline_cli.commands.gateway import all_of
from groundline_cli.evaluation.asking import Journal, ask_all
from groundline_cli.evaluation.comparing import Baseline, BaselineComparison, Difference
from groundline_cli.evaluation.report import report
from groundline_cli.evaluation.results import Evaluation
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet

_CURRENT: Final = "INDEX_CHOICE_CURRENT"
_CANDIDATE: Final = "INDEX_CHOICE_CANDIDATE"


@dataclass(frozen=True, slots=True)
class GateOptions:
    """The set that a gate asks, and how it judges."""

    gate: Path
    baseline: Path | None
    max_drop: float
    modes: tuple[str, ...]
    answers: bool
    html: Path | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "GateOptions | None":
        """Take the options of `gate_options` out of a command's; None without --gate. Raises
        click.UsageError."""
        taken = {name: options.pop(name) for name in cls.__slots__}
        if taken["gate"] is None:
            return None
        if not taken["modes"] and not taken["answers"]:
            raise click.UsageError("with --modes none there is only --answers to measure")
        return cls(**taken)


def gate_options[**P, R](command: Callable[P, R]) -> Callable[P, R]:
    """Add the options of a gate to a command."""
    for add in (
        click.option(
            "--html",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="With --gate: write a page with plots, and the questions that went wrong.",
        ),
        click.option(
            "--answers", is_flag=True, help="With --gate: ask each question, and compare the answers, too."
        ),
        modes_option("hybrid"),
        click.option(
            "--max-drop",
            type=click.FloatRange(min=0),
            default=0.01,
            show_default=True,
            metavar="X",
            help="With --gate: drop of a measure that is accepted, and any of which p is .05 or more.",
        ),
        click.option(
            "--baseline",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="With --gate: compare with this --output of `eval`, not with the index in use, which cannot "
            "be searched once another embedding model runs.",
        ),
        click.option(
            "--gate",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="SET",
            help="Use what is new only if it is not significantly worse on this evaluation set.",
        ),
    ):
        command = add(command)
    return command


class Gate:
    """A comparison of the index in use with the one that may take its place."""

    def __init__(self, collection: str, options: GateOptions) -> None:
        """Read the baseline, if one is given. Raises DatasetError."""
        self._collection = collection
        self._options = options
        self._baseline = Baseline.read(options.baseline) if options.baseline else None
        self._measured: Evaluation | None = None
        self.comparison: BaselineComparison | None = None
        self.losses: list[Difference] = []
        """Measures that are significantly worse; empty before `passes`."""

    async def load(self, client: AsyncClient) -> EvaluationSet:
        """Load the set, which must be able to tell something. Raises DatasetError, GatewayError."""
        options, stored = self._options, None
        if is_stored(options.gate):
            stored = [one.uri for one in await all_of(client.list_documents(self._collection))]
        dataset = EvaluationSet.load(options.gate, stored=stored)
        if options.modes and not dataset.judged:
            raise DatasetError(f"{options.gate}: no question has a relevant document")
        return dataset

    async def passes(self, client: AsyncClient, dataset: EvaluationSet) -> bool:
        """Ask both indexes, and tell whether the new one may be used. Raises DatasetError, GatewayError."""
        baseline = self._baseline or Baseline.of(await self._measure(client, dataset, _CURRENT))
        self._measured = await self._measure(client, dataset, _CANDIDATE)
        self.comparison = BaselineComparison.of(baseline, self._measured)
        self.losses = self.comparison.losses(self._options.max_drop)
        return not self.losses

    def as_json(self) -> JsonObject:
        """Return what was found for programs."""
        return {
            "comparison": self.comparison.as_json() if self.comparison else None,
            "isWorse": bool(self.losses),
        }

    def print_comparison(self) -> None:
        """Print each measure of both, if they were measured."""
        if self.comparison is not None:
            print_comparison(self.comparison)

    def write_page(self) -> None:
        """Write the page that --html asks for, if there is anything to show."""
        if self._options.html is not None and self._measured is not None:
            self._options.html.write_text(report(self._measured, self.comparison), encoding="utf-8")

    def require_passed(self) -> None:
        """Name the questions that became worse and end the command, if the new index is worse."""
        if self.losses:
            print_losses(self.losses)
            click.echo("the index in use stays", err=True)
            raise SystemExit(WORSE_EXIT_CODE)

    async def _measure(self, client: AsyncClient, dataset: EvaluationSet, index: str) -> Evaluation:
        """Measure an index of the collection."""
        options = self._options
        result = Evaluation.of(dataset, dataset.queries if options.answers else dataset.judged)
        name = "new index" if index == _CANDIDATE else "index in use"
        await search_modes(
            client,
            result,
            dataset,
            self._collection,
            options.modes,
            retrieval={"index": index},
            of=f" the {name}",
        )
        if options.answers:
            with question_bar(f"asking by the {name}", len(dataset.queries)) as advance:
                outcomes = await ask_all(
                    client,
                    dataset.queries,
                    self._collection,
                    concurrency=1,
                    journal=Journal(None, ""),
                    options={"retrieval": {"index": index}},
                    on_answer=advance,
                )
            result.add_outcomes(outcomes, dataset)
        return result
