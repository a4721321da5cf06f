"""The benchmark's data, and what it says of its figures."""

import numpy as np
from click.testing import CliRunner
from groundline_benchmarks.retrieval import benchmark
from groundline_cli.__main__ import cli


def test_the_same_data_is_made_each_time() -> None:
    first, again = (list(benchmark.texts(np.random.default_rng(1), 3)) for _ in range(2))
    assert first == again
    assert benchmark.queries(5) == benchmark.queries(5)


def test_texts_follow_zipfs_law_and_queries_leave_the_commonest_words_out() -> None:
    words = " ".join(benchmark.texts(np.random.default_rng(1), 200)).split()
    assert len(words) == 200 * benchmark.CHUNK_WORDS
    ranked = benchmark.words()
    assert len(set(ranked)) == len(ranked) == benchmark.VOCABULARY
    first, tenth = words.count(ranked[0]), words.count(ranked[9])
    assert 7 < first / tenth < 14
    assert not set(" ".join(benchmark.queries(50)).split()) & set(ranked[: benchmark.STOP_WORDS])


def test_quantiles_are_of_the_serial_searches() -> None:
    assert benchmark.Figures([1.0, 2.0, 3.0]).quantile(0.5) == 2.0


def test_the_command_says_what_it_measures() -> None:
    outcome = CliRunner().invoke(cli, ["bench", "retrieval", "--help"])
    assert outcome.exit_code == 0
    assert "The floor is" in outcome.output
