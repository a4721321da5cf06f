"""The page of a measurement."""

from html.parser import HTMLParser
from typing import Any, Final

import pytest
from groundline_cli.evaluation.answers import Outcome
from groundline_cli.evaluation.comparing import Baseline, BaselineComparison
from groundline_cli.evaluation.report import report
from groundline_cli.evaluation.results import Evaluation, QuestionRecord

HOSTILE: Final = """<script>alert(1)</script><img src=x onerror='x'>"&amp;\x1b[2J\x00"""


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def outcome(text: str, **fields: Any) -> Outcome:
    given: dict[str, Any] = {
        "refused": False, "citations": ["d1"], "sources": ["d1"], "confidence": 0.9, "raw_confidence": 0.9,
        "grounded": True, "issues": [], "degraded": False, "model": "m",
    }  # fmt: skip
    return Outcome(answer=text, **{**given, **fields})


def record(text: str, figures: dict[str, float], answer: Outcome) -> QuestionRecord:
    return QuestionRecord("q", text, True, ["x"], ["d1"], {"answers": figures}, {}, answer)


def evaluation() -> Evaluation:
    wrong = {"answered": 1.0, "contains": 0.0, "right": 0.0, "confidence": 0.9, "brier": 0.81}
    right = {**wrong, "contains": 1.0, "right": 1.0, "brier": 0.01}
    records = [
        record(HOSTILE, wrong, outcome(f"wrong {HOSTILE}", citations=[HOSTILE])),
        record("well answered", right, outcome("x")),
    ]
    records[1].figures["hybrid"] = {"recall@10": 1.0, "ndcg@10": 0.5}
    return Evaluation(HOSTILE, 3, {"documents without text": 2}, records, {"answers": 1}, failed=1)


def test_texts_of_documents_and_questions_are_text_on_the_page() -> None:
    page = Page(report(evaluation()))
    assert not {"script", "img", "a", "link", "iframe", "object", "image", "use"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    shown = HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    assert shown in page.texts
    assert f"wrong {shown}" in page.texts


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = report(evaluation())
    page = Page(text)
    assert not {"src", "href", "xlink:href", "srcset", "action"} & {name for name, _ in page.attributes}
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_figures_plots_and_what_lessens_them_are_shown() -> None:
    compared = evaluation()
    baseline = Baseline({(one.text, one.id): one.figures for one in compared.questions})
    page = Page(report(compared, BaselineComparison.of(baseline, compared)))
    for text in (
        "Answers",
        "Retrieval: hybrid",
        "Against the baseline",
        "passed over: 2 documents without text",
        "degraded: 1 of answers; their figures say little",
        "without an answer: 1",
        "contains an accepted answer",
        "0.000–1.000",
        "Reliability: right answers over stated confidence",
        "Risk over coverage",
        "2 answers: stated 0.900, right 0.500",
        "Questions that went wrong (1)",
    ):
        assert text in page.texts
    assert "well answered" not in page.texts
    assert page.tags.count("svg") == 4


def test_a_confidence_that_keeps_answers_right_is_shown_where_there_is_one() -> None:
    assert "of them right, at least" not in Page(report(evaluation())).texts
    right = evaluation()
    del right.questions[0]
    texts = Page(report(right)).texts
    assert texts[texts.index("of them right, at least") + 1 :][:3] == ["0.90", "1.000", "0.90"]


def test_kinds_of_questions_are_told_apart() -> None:
    of_kinds = evaluation()
    assert "By kind of question" not in Page(report(of_kinds)).texts
    of_kinds.questions[0].kind, of_kinds.questions[1].kind = "hostile", "plain"
    assert {kind: one.value for kind, one in of_kinds.kinds().items()} == {"hostile": 0, "plain": 1}
    assert "By kind of question" in Page(report(of_kinds)).texts


def test_without_answers_there_is_no_calibration() -> None:
    only = Evaluation("s", 1, {}, [QuestionRecord("q", "t", True, figures={"keyword": {"recall@10": 0.0}})])
    page = Page(report(only))
    assert page.tags.count("svg") == 1
    assert "not among the first 10: keyword" in page.texts


@pytest.mark.parametrize(
    ("figures", "answer", "said"),
    [
        ({}, Outcome.failed("too long"), "no answer"),
        ({"refused": 0.0, "right": 0.0}, outcome("x"), "answered, though it cannot be"),
        ({"answered": 0.0, "contains": 0.0}, outcome("", refused=True), "refused, though it can be answered"),
        ({"answered": 1.0, "right": 0.0}, outcome("y"), "no accepted answer"),
        ({"right": 1.0, "cited_recall": 0.0}, outcome("x"), "right, but no relevant document cited"),
        ({"answered": 1.0, "right": 1.0, "cited_recall": 0.5}, outcome("x"), ""),
        ({"refused": 1.0}, outcome("", refused=True), ""),
    ],
)
def test_what_went_wrong_is_said(figures: dict[str, float], answer: Outcome, said: str) -> None:
    assert record("question", figures, answer).verdict() == said
