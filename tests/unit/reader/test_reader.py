"""The reader, with a model whose outputs are known: it looks for the token "kiel"."""

from collections.abc import Callable
from pathlib import Path

import pytest
from groundline_reader import MAXIMUM_TOKENS, Reader, ReaderError
from groundline_tests.generator.reader import write_labels, write_reader


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_reader(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "SHA256SUMS").unlink(), "holds no reader"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "holds no reader"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"cut off"), "model.onnx is damaged"),
        (lambda folder: write_labels(folder, ["yes", "no"]), "other labels: yes, no"),
        (lambda folder: (folder / "SHA256SUMS").write_text("one word"), "holds no reader"),
    ],
)
def test_a_folder_that_is_no_whole_reader_is_refused_by_name(
    folder: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder)
    with pytest.raises(ReaderError, match=said) as raised:
        Reader(folder)
    assert str(folder) in str(raised.value)


def test_each_pair_is_read_by_itself_in_the_order_given(folder: Path) -> None:
    reader = Reader(folder)
    pairs = [("where", "in kiel"), ("kiel", "in"), ("where", "kiel and " * 80), ("where", ""), ("", "kiel")]
    together = reader.read(pairs)
    assert [reading.answerable for reading in together] == [1, 0, 80, 0, 1]
    assert together == [reader.read([pair])[0] for pair in pairs]
    assert reader.read([]) == []


def test_the_answer_is_the_words_of_the_passage_and_the_claims_chances_are_one_together(folder: Path) -> None:
    (reading,) = Reader(folder).read([("where", "It stands in  kiel, they say.")])
    assert reading.answer == "kiel"
    assert sum(reading.claim) == pytest.approx(1)
    assert max(reading.claim) == reading.claim[0]


def test_a_pair_that_is_too_long_is_cut_in_its_passage(folder: Path) -> None:
    (reading,) = Reader(folder).read([("where " * 500, "kiel " * MAXIMUM_TOKENS)])
    assert 0 < reading.answerable < MAXIMUM_TOKENS - 64
