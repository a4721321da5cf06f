"""Combinations of settings, and which of them is best."""

from pathlib import Path

import pytest
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.evaluation.sweep import SweepPlan, rank

PLAN = """
[settings.chunking]
chunkSize = [500, 1000]
chunkOverlap = 0
[options.rerank]
fusion = ["FUSION_METHOD_RRF", "FUSION_METHOD_WEIGHTED"]
"""


def plan(tmp_path: Path, text: str = PLAN) -> SweepPlan:
    (tmp_path / "plan.toml").write_text(text)
    return SweepPlan.read(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("settings = [", r"plan\.toml: "),
        ("[setings]\na = [1, 2]", "setings is not one of settings, options, measure"),
        ('measure = "beauty"\n[options]\na = [1, 2]', "measure must be one of recall@5,"),
        ("[options]\na = 1", "1 combinations; there must be 2 to 100"),
        ("[options]\na = []", "0 combinations; there must be 2 to 100"),
        (f"[options]\na = {list(range(11))}\nb = {list(range(10))}", "110 combinations"),
    ],
)
def test_a_wrong_plan_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        plan(tmp_path, text)


def test_every_combination_is_tried_with_one_collection_for_equal_settings(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert [len(group) for group in found.by_settings()] == [2, 2]
    first = found.combinations[0]
    assert first.settings == {"chunking": {"chunkSize": 500, "chunkOverlap": 0}}
    assert first.options == {"rerank": {"fusion": "FUSION_METHOD_RRF"}}
    assert first.label == "chunkSize 500, fusion FUSION_METHOD_RRF"
    assert len({one.key for one in found.combinations}) == 4


def test_the_best_becomes_the_defaults_of_a_collection(tmp_path: Path) -> None:
    text = (
        '[options]\neffort = ["A", "B"]\n[options.retrieval]\nkeywordLimit = 9\n'
        "[settings]\nkeepOriginals = true"
    )
    [first, _] = plan(tmp_path, text).combinations
    assert first.defaults() == {"keepOriginals": True, "retrieval": {"keywordLimit": 9}}


def test_every_other_question_decides_and_the_others_say_what_to_expect(tmp_path: Path) -> None:
    found = plan(tmp_path, 'measure = "mrr@10"\n[options]\na = [1, 2, 3]')
    lucky, steady, unmeasured = found.combinations
    measured = {
        lucky.key: {f"q{n}": {"search": {"mrr@10": float(n % 2 == 0)}} for n in range(40)},
        steady.key: {f"q{n}": {"search": {"mrr@10": 0.8}} for n in range(40)},
        unmeasured.key: {},
    }
    first, second = rank(found, measured)
    assert (first.combination, first.chosen_by, first.estimate.value) == (lucky, 1, 0.5)
    assert first.held_out is not None
    assert (first.held_out.value, first.held_out.questions) == (0, 20)
    assert first.probability == 1
    assert (second.combination, second.chosen_by) == (steady, 0.8)
    assert second.probability < 0.01


def test_the_lowest_error_is_the_best(tmp_path: Path) -> None:
    found = plan(tmp_path, 'measure = "brier"\n[options]\na = [1, 2]')
    high, low = found.combinations
    measured = {high.key: {"q": {"answers": {"brier": 0.5}}}, low.key: {"q": {"answers": {"brier": 0.1}}}}
    assert [one.combination for one in rank(found, measured)] == [low, high]


def test_nothing_is_best_where_nothing_was_measured(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no question has a figure of ndcg@10"):
        rank(plan(tmp_path), {})
