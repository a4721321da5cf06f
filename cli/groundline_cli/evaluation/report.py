"""Report of an evaluation."""

from xml.etree.ElementTree import Element, SubElement

from groundline_cli.evaluation.comparing import BaselineComparison
from groundline_cli.evaluation.figures import ANSWERS, calibration_bins, measures_of, risk_coverage
from groundline_cli.evaluation.plots import interval_plot, reliability_plot, risk_coverage_plot
from groundline_cli.evaluation.results import Estimate, Evaluation
from groundline_cli.pages import ReportPage, add, add_table


def report(evaluation: Evaluation, comparison: BaselineComparison | None = None) -> str:
    """Return the page."""
    page = ReportPage(f"Evaluation of {evaluation.name}")
    body = page.body
    add(body, "p", f"{evaluation.documents} documents, {len(evaluation.questions)} questions")
    _add_notes(body, evaluation)
    estimates = evaluation.estimates()
    if answers := estimates.pop(ANSWERS, None):
        _add_figures(body, "Answers", ANSWERS, answers)
        _add_calibration(body, evaluation)
    for mode, figures in estimates.items():
        _add_figures(body, f"Retrieval: {mode}", mode, figures)
    if kinds := evaluation.kinds():
        add(body, "h2", "By kind of question")
        rows = [(kind, f"{one.value:.3f}", _interval(one), str(one.questions)) for kind, one in kinds.items()]
        add_table(body, ("kind", "went well", "95 % interval", "questions"), rows)
    if comparison is not None:
        _add_comparison(body, comparison)
    _add_wrong(body, evaluation)
    return page.as_html()


def _interval(one: Estimate) -> str:
    return f"{one.low:.3f}–{one.high:.3f}"


def _add_notes(body: Element, evaluation: Evaluation) -> None:
    notes = [evaluation.agreement.as_text()] if evaluation.agreement else []
    notes += [f"passed over: {number} {what}" for what, number in evaluation.skipped.items()]
    notes += [
        f"degraded: {number} of {group}; their figures say little"
        for group, number in evaluation.degraded.items()
        if number
    ]
    if evaluation.failed:
        notes.append(f"without an answer: {evaluation.failed}")
    for note in notes:
        add(body, "p", note)


def _add_figures(body: Element, title: str, group: str, estimates: dict[str, Estimate]) -> None:
    add(body, "h2", title)
    titles = {measure.name: measure.title for measure in measures_of(group)}
    rows = [(titles[name], estimate) for name, estimate in estimates.items()]
    SubElement(body, "figure").append(interval_plot(rows))
    add_table(
        body,
        ("figure", "value", "95 % interval", "questions"),
        [(name, f"{one.value:.3f}", _interval(one), str(one.questions)) for name, one in rows],
    )


def _add_calibration(body: Element, evaluation: Evaluation) -> None:
    items = [(one["confidence"], one["right"]) for one in evaluation.figures(ANSWERS) if "confidence" in one]
    if items:
        SubElement(body, "figure").append(reliability_plot(calibration_bins(items)))
        SubElement(body, "figure").append(risk_coverage_plot(risk_coverage(items)))
    if lines := evaluation.lines():
        rows = [(f"{one.confidence:.2f}", f"{one.share:.3f}", f"{one.right:.2f}") for one in lines]
        headings = ("confidence, at least", "share of the given answers", "of them right, at least")
        add_table(body, headings, rows)


def _add_comparison(body: Element, comparison: BaselineComparison) -> None:
    add(body, "h2", "Against the baseline")
    add(body, "p", f"{comparison.common} questions in common; {comparison.missing} in the baseline alone")
    add_table(
        body,
        ("figure", "before", "now", "difference", "p", "questions"),
        [
            (
                f"{one.group}: {one.title}",
                f"{one.before:.3f}",
                f"{one.after:.3f}",
                f"{one.after - one.before:+.3f} ({one.low:+.3f}–{one.high:+.3f})",
                f"{one.probability:.3f}",
                str(one.questions),
            )
            for one in comparison.differences
        ],
    )


def _add_wrong(body: Element, evaluation: Evaluation) -> None:
    rows = []
    for record in evaluation.questions:
        if wrong := record.verdict():
            outcome = record.outcome
            rows.append(
                (
                    record.id,
                    record.text,
                    wrong,
                    " / ".join(record.answers) or ", ".join(record.relevant),
                    (outcome.error or outcome.answer) if outcome else "",
                    ", ".join(dict.fromkeys(outcome.citations)) if outcome else "",
                    f"{outcome.confidence:.2f}" if outcome and not outcome.error else "",
                )
            )
    add(body, "h2", f"Questions that went wrong ({len(rows)})")
    headings = ("id", "question", "what went wrong", "expected", "answer", "cited", "confidence")
    add_table(body, headings, rows)
