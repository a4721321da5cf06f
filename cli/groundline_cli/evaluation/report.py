"""Report of a measurement: one page that needs nothing from elsewhere.

It is built as a tree of elements, which escapes every text when it is written.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from groundline_cli.evaluation.comparing import BaselineComparison
from groundline_cli.evaluation.figures import ANSWERS, calibration_bins, measures_of, risk_coverage
from groundline_cli.evaluation.plots import interval_plot, reliability_plot, risk_coverage_plot
from groundline_cli.evaluation.results import Estimate, Evaluation

__all__ = ["report"]

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #d5d9de; --mark: #0b61a4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e6ea; --paper: #15181c; --faint: #3a4048; --mark: #6db3f2; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem; border-bottom: 1px solid var(--faint);
  overflow-wrap: anywhere; }
figure { display: inline-block; margin: 0 2rem 1rem 0; }
svg { max-width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--ink); }
.grid { stroke: var(--faint); fill: none; }
.guide { stroke: var(--ink); stroke-dasharray: 4 4; fill: none; }
.curve { stroke: var(--mark); stroke-width: 2; fill: none; }
.interval { stroke: var(--mark); stroke-width: 3; stroke-linecap: round; opacity: .55; }
.mark { fill: var(--mark); }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def report(evaluation: Evaluation, comparison: BaselineComparison | None = None) -> str:
    """Return the page."""
    page = Element("html", {"lang": "en"})
    head = SubElement(page, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    _add(head, "title", f"Evaluation of {evaluation.name}")
    _add(head, "style", _STYLE)
    body = SubElement(page, "body")
    _add(body, "h1", f"Evaluation of {evaluation.name}")
    _add(body, "p", f"{evaluation.documents} documents, {len(evaluation.questions)} questions")
    _add_notes(body, evaluation)
    estimates = evaluation.estimates()
    if answers := estimates.pop(ANSWERS, None):
        _add_figures(body, "Answers", ANSWERS, answers)
        _add_calibration(body, evaluation)
    for mode, figures in estimates.items():
        _add_figures(body, f"Retrieval: {mode}", mode, figures)
    if kinds := evaluation.kinds():
        _add(body, "h2", "By kind of question")
        rows = [(kind, f"{one.value:.3f}", _interval(one), str(one.questions)) for kind, one in kinds.items()]
        _add_table(body, ("kind", "went well", "95 % interval", "questions"), rows)
    if comparison is not None:
        _add_comparison(body, comparison)
    _add_wrong(body, evaluation)
    return f"<!DOCTYPE html>\n{tostring(page, encoding='unicode', method='html')}\n"


def _interval(one: Estimate) -> str:
    return f"{one.low:.3f}–{one.high:.3f}"


def _add_notes(body: Element, evaluation: Evaluation) -> None:
    notes = [f"passed over: {number} {what}" for what, number in evaluation.skipped.items()]
    notes += [
        f"degraded: {number} of {group}; their figures say little"
        for group, number in evaluation.degraded.items()
        if number
    ]
    if evaluation.failed:
        notes.append(f"without an answer: {evaluation.failed}")
    for note in notes:
        _add(body, "p", note)


def _add_figures(body: Element, title: str, group: str, estimates: dict[str, Estimate]) -> None:
    _add(body, "h2", title)
    titles = {measure.name: measure.title for measure in measures_of(group)}
    rows = [(titles[name], estimate) for name, estimate in estimates.items()]
    SubElement(body, "figure").append(interval_plot(rows))
    _add_table(
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
        _add_table(body, headings, rows)


def _add_comparison(body: Element, comparison: BaselineComparison) -> None:
    _add(body, "h2", "Against the baseline")
    _add(body, "p", f"{comparison.common} questions in common; {comparison.missing} in the baseline alone")
    _add_table(
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
    _add(body, "h2", f"Questions that went wrong ({len(rows)})")
    headings = ("id", "question", "what went wrong", "expected", "answer", "cited", "confidence")
    _add_table(body, headings, rows)


def _add_table(body: Element, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = SubElement(body, "table")
    line = SubElement(SubElement(table, "thead"), "tr")
    for heading in headings:
        _add(line, "th", heading).set("scope", "col")
    lines = SubElement(table, "tbody")
    for row in rows:
        line = SubElement(lines, "tr")
        for cell in row:
            # Another language's text may run from right to left; it must not turn what stands beside it.
            _add(line, "td", cell).set("dir", "auto")


def _add(parent: Element, tag: str, text: str) -> Element:
    element = SubElement(parent, tag)
    element.text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return element
