"""Readers, with models whose outputs are known: they look for the tokens "kiel" and "where"."""

from collections.abc import Callable
from pathlib import Path

import pytest
from groundline_reader import CLAIM_LABELS, MAXIMUM_TOKENS, ClaimClassifier, Reader, ReaderError, open_reader
from groundline_tests.generator.reader import write_classifier, write_labels, write_reader


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
        (lambda folder: write_labels(folder, {"claim": ["yes", "no"]}), "other labels: yes, no"),
        (lambda folder: write_labels(folder, {"pair": ["supports", "refutes"]}), "other labels: supports"),
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


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "needs a list"),
        ({"pair": "supports"}, "needs a list"),
        ({"pair": ["supports", "refutes"], "token": []}, "needs a list"),
        ({"pair": ["entailment", "neutral", "supports"]}, "other labels: entailment, neutral"),
        ({"pair": ["refutes", "unrelated", "unrelated"]}, "without the labels supports"),
        ({"pair": ["supports", "supports", "supports"]}, "without the labels supports"),
        ({"pair": ["refutes", "supports"], "passage": "Read:"}, "must have {passage} once"),
        ({"pair": ["supports", "unrelated"]}, "its labels ask for"),
        ({"token": ["supports", "unrelated", "refutes"]}, "its labels ask for"),
    ],
)
def test_a_model_of_anothers_whose_labels_do_not_fit_is_refused_at_once(
    tmp_path: Path, labels: object, said: str
) -> None:
    write_classifier(tmp_path, "pair")
    write_labels(tmp_path, labels)
    with pytest.raises(ReaderError, match=said):
        open_reader(tmp_path)


def test_a_checksum_that_is_missing_is_told(tmp_path: Path) -> None:
    write_classifier(tmp_path, "pair")
    sums = (tmp_path / "SHA256SUMS").read_text().splitlines(keepends=True)
    (tmp_path / "SHA256SUMS").write_text("".join(sums[1:]))
    with pytest.raises(ReaderError, match=r"does not name model\.onnx"):
        open_reader(tmp_path)


def test_a_classifier_of_pairs_is_read_by_the_labels_it_is_given(tmp_path: Path) -> None:
    write_classifier(tmp_path, "pair")
    model = open_reader(tmp_path)
    assert isinstance(model, ClaimClassifier)
    pairs = [("in", "in kiel"), ("in", "where kiel"), ("in", "in"), ("in", "kiel " * 2000)]
    together = model.read_claims(pairs)
    likeliest = [CLAIM_LABELS[max(range(3), key=lambda place: each[place])] for each in together]
    assert likeliest == ["supports", "refutes", "unrelated", "supports"]
    assert [sum(each[:3]) for each in together] == pytest.approx([1] * 4)
    assert together == [model.read_claims([pair])[0] for pair in pairs]
    assert model.read_claims([]) == []


def test_a_model_takes_a_passage_in_the_form_that_it_is_given(tmp_path: Path) -> None:
    write_classifier(tmp_path, "pair")
    labels = {"pair": ["refutes", "unrelated", "supports"], "passage": "where {passage}"}
    write_labels(tmp_path, labels)
    [reading] = open_reader(tmp_path).read_claims([("in", "kiel")])
    assert reading.refutes > reading.supports


def test_a_classifier_of_tokens_tells_the_words_that_are_not_borne_out(tmp_path: Path) -> None:
    write_classifier(tmp_path, "token")
    wrong, right, empty = open_reader(tmp_path).read_claims(
        [("Is it where, or in  where-house?", "kiel"), ("in kiel", "where"), ("", "kiel")]
    )
    assert (wrong.unrelated > 0.9, wrong.refutes, wrong.words) == (True, 0, ("where", "where-house"))
    assert (right.supports > 0.9, right.words) == (True, ())
    assert empty.unrelated == 1


def test_a_model_of_ones_own_reads_claims_as_well(folder: Path) -> None:
    [reading] = open_reader(folder).read_claims([("where", "in kiel")])
    assert reading.supports > max(reading.refutes, reading.unrelated)
