"""Measures against ir_measures, the reference of the field."""

import random

import ir_measures
import pytest
from groundline_cli.evaluation.measures import precision, ranking_measures
from groundline_cli.evaluation.sets import Query
from ir_measures import RR, R, SetP, nDCG


@pytest.mark.parametrize("seed", range(5))
def test_measures_of_random_rankings_are_those_of_ir_measures(seed: int) -> None:
    chance = random.Random(seed)
    documents = [f"d{number}" for number in range(60)]
    queries, rankings = {}, {}
    for number in range(40):
        # A grade of 0 is a judgement, too, and counts as irrelevant.
        graded = {one: chance.randint(0, 3) for one in chance.sample(documents, chance.randint(2, 12))}
        graded[next(iter(graded))] = chance.randint(1, 3)
        queries[f"q{number}"] = graded
        rankings[f"q{number}"] = chance.sample(documents, chance.choice([1, 5, 25, 50]))
    qrels = [
        ir_measures.Qrel(query, document, grade)
        for query, graded in queries.items()
        for document, grade in graded.items()
    ]
    run = [
        ir_measures.ScoredDoc(query, document, -float(rank))
        for query, ranking in rankings.items()
        for rank, document in enumerate(ranking)
    ]
    names = {
        R @ 5: "recall@5", R @ 10: "recall@10", R @ 20: "recall@20", RR @ 10: "mrr@10", nDCG @ 10: "ndcg@10"
    }  # fmt: skip
    checked = 0
    for metric in ir_measures.iter_calc([*names, SetP], qrels, run):
        relevance = {one: grade for one, grade in queries[metric.query_id].items() if grade > 0}
        ranking = rankings[metric.query_id]
        ours = ranking_measures(Query(metric.query_id, "", relevance), ranking, {})
        if metric.measure == SetP:
            assert precision(ranking, relevance) == pytest.approx(metric.value)
        else:
            assert ours[names[metric.measure]] == pytest.approx(metric.value), metric
        checked += 1
    assert checked == 40 * 6
