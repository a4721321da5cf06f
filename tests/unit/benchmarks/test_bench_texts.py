"""The data that retrieval is measured with."""

import numpy as np
from click.testing import CliRunner
from groundline_benchmarks.measuring.texts import SENTENCE_WORDS, TEXT_WORDS, VOCABULARY, texts, words
from groundline_benchmarks.retrieval.corpus import STOP_WORDS, queries, questions
from groundline_cli.__main__ import cli


def test_the_same_data_is_made_each_time() -> None:
    first, again = (list(texts(np.random.default_rng(1), 3)) for _ in range(2))
    assert first == again
    assert queries(5) == queries(5)
    assert questions(5) == questions(5)


def test_texts_follow_zipfs_law_and_queries_leave_the_commonest_words_out() -> None:
    drawn = " ".join(texts(np.random.default_rng(1), 200)).lower().replace(".", "").split()
    assert len(drawn) == 200 * TEXT_WORDS
    ranked = words()
    assert len(set(ranked)) == len(ranked) == VOCABULARY
    first, tenth = drawn.count(ranked[0]), drawn.count(ranked[9])
    assert 7 < first / tenth < 14
    assert not set(" ".join(queries(50)).split()) & set(ranked[:STOP_WORDS])


def test_a_text_has_sentences() -> None:
    (text,) = texts(np.random.default_rng(1), 1)
    sentences = text.split(". ")
    assert len(sentences) == TEXT_WORDS // SENTENCE_WORDS
    assert all(sentence[0].isupper() for sentence in sentences)


def test_the_command_says_what_it_measures() -> None:
    outcome = CliRunner().invoke(cli, ["bench", "retrieval", "--help"])
    assert outcome.exit_code == 0
    assert "The floor is" in outcome.output
