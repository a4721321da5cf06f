"""Tables of `groundline eval`."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from groundline_cli.evaluation.comparing import BaselineComparison, Difference
from groundline_cli.evaluation.figures import ANSWERS, measures_of
from groundline_cli.evaluation.results import Estimate, Evaluation
from groundline_cli.terminal import print_columns, printable, summary

_SHOWN_QUESTIONS: Final = 50
_QUESTION_LENGTH: Final = 100


def print_evaluation(result: Evaluation) -> None:
    """Print the figures as tables; what lessens them goes to stderr."""
    click.echo(f"{result.name}: {result.documents} documents, {len(result.questions)} questions")
    if result.agreement is not None:
        click.echo(result.agreement.as_text())
    for what, number in result.skipped.items():
        click.echo(f"passed over: {number} {what}", err=True)
    if result.failed:
        click.echo(f"without an answer: {result.failed} questions that the gateway refused", err=True)
    estimates = result.estimates()
    modes = [group for group in estimates if group != ANSWERS]
    if modes:
        _print_modes(modes, estimates)
    if answers := estimates.get(ANSWERS):
        titles = {measure.name: measure.title for measure in measures_of(ANSWERS)}
        rows = [(titles[name], _shown(one), one.questions) for name, one in answers.items()]
        click.echo()
        print_columns(("ANSWERS", "VALUE", "QUESTIONS"), rows)
        for line in result.lines():
            click.echo(
                f"at a confidence of {line.confidence:.2f} or more: {line.share:.3f} of these answers, "
                f"{line.right:.2f} or more of them right"
            )
    if kinds := result.kinds():
        click.echo()
        rows = [(kind, _shown(one), one.questions) for kind, one in kinds.items()]
        print_columns(("KIND", "WENT WELL", "QUESTIONS"), rows)
    for group, number in result.degraded.items():
        if number:
            click.echo(f"degraded: {number} of {group}; their figures say little", err=True)


def _print_modes(modes: Sequence[str], estimates: Mapping[str, Mapping[str, Estimate]]) -> None:
    titles = {measure.name: measure.title for measure in measures_of(modes[0])}
    rows = [
        (title, *(_shown(estimates[mode][name]) for mode in modes))
        for name, title in titles.items()
        if all(name in estimates[mode] for mode in modes)
    ]
    print_columns(("", *(mode.upper() for mode in modes)), rows)


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def print_comparison(comparison: BaselineComparison) -> None:
    """Print each measure before and after."""
    click.echo(f"\n{comparison.common} questions of the baseline")
    if comparison.missing:
        click.echo(f"only in the baseline: {comparison.missing} questions", err=True)
    rows = [
        (
            f"{one.group}: {one.title}",
            one.before,
            one.after,
            f"{one.after - one.before:+.3f} ({one.low:+.3f}–{one.high:+.3f})",
            one.probability,
            one.questions,
        )
        for one in comparison.differences
    ]
    print_columns(("", "BEFORE", "NOW", "DIFFERENCE", "P", "QUESTIONS"), rows)


def print_losses(losses: Sequence[Difference]) -> None:
    """Name on stderr the measures that were lost, and the questions that became worse."""
    for loss in losses:
        click.echo(
            f"worse: {loss.group}: {loss.title}, {loss.before:.3f} to {loss.after:.3f} "
            f"(p = {loss.probability:.3f})",
            err=True,
        )
        for record in loss.worse[:_SHOWN_QUESTIONS]:
            question = summary(record.text, length=_QUESTION_LENGTH)
            click.echo(f"  {printable(record.id)}  {question}", err=True)
        if len(loss.worse) > _SHOWN_QUESTIONS:
            click.echo(f"  and {len(loss.worse) - _SHOWN_QUESTIONS} more", err=True)
