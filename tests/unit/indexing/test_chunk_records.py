"""Rows of chunks on their way into PostgreSQL."""

import pytest
from groundline_indexing.chunks import CHUNK_COLUMNS, copied_together


@pytest.mark.parametrize(("characters", "largest"), [(100, 256), (2_500, 200), (20_000, 25)])
def test_long_chunks_are_copied_in_smaller_groups(characters: int, largest: int) -> None:
    text = CHUNK_COLUMNS.index("original_text")
    rows = [tuple("x" * characters if at == text else row for at in range(text + 1)) for row in range(1_000)]
    groups = list(copied_together(rows))
    assert [row for group in groups for row in group] == rows
    assert {len(group) for group in groups[:-1]} == {largest}
