from pathlib import Path

import pytest
from groundline_benchmarks.chat.latency import work_seconds
from groundline_benchmarks.chat.quality import known_answers, spread
from groundline_benchmarks.chat.streams import StreamStep, sustained
from groundline_benchmarks.measuring.statistics import percentile
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet, Query


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([3.0], 0.5, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        (list(range(1, 101)), 0.95, 95),
        ([1.0, 2.0], 1.0, 2.0),
    ],
)
def test_percentiles_are_measured_values(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_work_is_the_longer_of_both_arms() -> None:
    timings = {"STAGE_EMBEDDING": 0.002, "STAGE_SEMANTIC_SEARCH": 0.003, "STAGE_FETCHING": 0.001}
    assert work_seconds({**timings, "STAGE_KEYWORD_SEARCH": 0.004}) == pytest.approx(0.005)
    assert work_seconds({**timings, "STAGE_KEYWORD_SEARCH": 0.009}) == pytest.approx(0.009)


def test_streams_hold_while_gaps_stay_below_twice_the_providers() -> None:
    steps = [
        StreamStep(1, 10.0, 10.0, 10.0),
        StreamStep(2, 20.0, 10.0, 10.0),
        StreamStep(4, 20.1, 10.0, 10.0),
    ]
    assert [step.held for step in steps] == [True, True, False]
    assert sustained(steps) == 2
    assert sustained(steps[2:]) == 0


def test_questions_are_taken_from_the_whole_set() -> None:
    questions = [Query(str(number), str(number), {"d": 1}, ["a"]) for number in range(10)]
    assert [question.text for question in spread(questions, 4)] == ["0", "2", "5", "7"]
    assert spread(questions, 99) == questions


def test_a_set_that_names_no_answer_cannot_be_measured(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "d", "text": "t"}\n')
    (tmp_path / "queries.jsonl").write_text('{"id": "q", "text": "why?"}\n')
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq\td\t1\n")
    with pytest.raises(DatasetError, match=r"queries\.jsonl: no query names its answer"):
        known_answers(EvaluationSet.load(tmp_path))
