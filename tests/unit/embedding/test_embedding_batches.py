from groundline_embedding.local.embedder import RUN_TOKENS, batches_by_length


def test_texts_of_like_length_share_a_run_the_longest_first() -> None:
    assert list(batches_by_length([10, 30, 12, 28], batch_size=2)) == [[1, 3], [2, 0]]


def test_a_run_has_no_more_texts_than_it_may() -> None:
    assert [len(batch) for batch in batches_by_length([1] * 7, batch_size=3)] == [3, 3, 1]


def test_a_run_has_no_more_tokens_than_is_quick_with_its_padding() -> None:
    lengths = [RUN_TOKENS // 2, RUN_TOKENS // 2, RUN_TOKENS // 4 + 1, *[RUN_TOKENS // 4] * 3]
    assert list(batches_by_length(lengths, batch_size=8)) == [[0, 1], [2, 3, 4], [5]]


def test_a_text_of_more_tokens_has_a_run_of_its_own() -> None:
    assert list(batches_by_length([1, RUN_TOKENS + 1, RUN_TOKENS + 1], batch_size=8)) == [[1], [2], [0]]


def test_no_texts_need_no_run() -> None:
    assert not list(batches_by_length([], batch_size=8))
