"""Two measurements of the same questions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from groundline_cli.evaluation.comparing import Baseline, BaselineComparison, Difference
from groundline_cli.evaluation.results import Evaluation, QuestionRecord
from groundline_cli.evaluation.sets import DatasetError

ANSWERED: Final = {"confidence": 0.9, "right": 1.0}


def evaluation(figures: Sequence[Mapping[str, float]], *, group: str = "answers") -> Evaluation:
    """Return a measurement of one question for each of the figures."""
    records = [
        QuestionRecord(f"q{number}", f"question {number}", answerable=True, figures={group: dict(one)})
        for number, one in enumerate(figures)
    ]
    return Evaluation("set", 3, {}, records)


def compared(
    before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]]
) -> BaselineComparison:
    earlier = evaluation(before)
    baseline = Baseline({(record.text, record.id): record.figures for record in earlier.questions})
    return BaselineComparison.of(baseline, evaluation(after))


def named(comparison: BaselineComparison, name: str) -> Difference:
    return next(one for one in comparison.differences if one.name == name)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"records": [{"id": "q"}]}', '{"records": 5}'])
def test_a_file_that_no_run_wrote_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "earlier.json").write_text(text)
    with pytest.raises(DatasetError, match=r"earlier\.json: not what --output writes"):
        Baseline.read(tmp_path / "earlier.json")


def test_runs_of_other_questions_cannot_be_compared() -> None:
    changed = evaluation([{"contains": 1.0}])
    changed.questions[0].text = "another question of the same id"
    with pytest.raises(DatasetError, match="none of these questions"):
        BaselineComparison.of(Baseline({("question 0", "q0"): {}}), changed)


def test_a_run_is_read_again_and_does_not_differ_from_itself(tmp_path: Path) -> None:
    run = evaluation([{"contains": 1.0, **ANSWERED}, {"contains": 0.0, **ANSWERED, "right": 0.0}])
    (tmp_path / "run.json").write_text(json.dumps({"records": run.records_as_json()}))
    comparison = BaselineComparison.of(Baseline.read(tmp_path / "run.json"), run)
    assert (comparison.common, comparison.missing) == (2, 0)
    assert all(one.before == one.after and one.probability == 1 for one in comparison.differences)
    assert not comparison.losses(0)


def test_a_loss_beyond_the_maximum_is_told_with_its_questions() -> None:
    before = [{"contains": 1.0}] * 40
    comparison = compared(before, [*[{"contains": 0.0}] * 10, *before[10:]])
    contains = named(comparison, "contains")
    assert (contains.before, contains.after, contains.drop) == (1, 0.75, 0.25)
    assert contains.low < -0.25 < contains.high < 0
    assert contains.probability < 0.01
    assert [record.id for record in contains.worse] == [f"q{number}" for number in range(10)]
    assert comparison.losses(0.2) == [contains]
    assert comparison.losses(0.25) == []


def test_a_loss_that_may_be_chance_is_none() -> None:
    before = [{"contains": 1.0}] * 8
    comparison = compared(before, [{"contains": 0.0}, *before[1:]])
    assert named(comparison, "contains").drop == 0.125
    assert comparison.losses(0) == []


def test_what_is_better_when_lower_is_lost_when_it_rises() -> None:
    sure, unsure = {"brier": 0.01, **ANSWERED}, {"brier": 0.81, **ANSWERED, "right": 0.0}
    comparison = compared([sure] * 30, [unsure] * 12 + [sure] * 18)
    lost = {difference.name for difference in comparison.losses(0.05)}
    assert lost == {"right", "brier", "risk_coverage_area"}
    calibration = named(comparison, "calibration_error")
    assert calibration.drop == pytest.approx(0.2)
    assert len(calibration.worse) == 12
    assert compared([unsure] * 12 + [sure] * 18, [sure] * 30).losses(0) == []


def test_a_figure_counts_where_both_runs_have_it() -> None:
    comparison = compared(
        [{"right": 1.0}, {"right": 0.0}, {"contains": 1.0}], [{"right": 1.0}, {"contains": 0.0}]
    )
    assert (comparison.common, comparison.missing) == (2, 1)
    assert [(one.name, one.questions) for one in comparison.differences] == [("right", 1)]
