"""Records of files for an import: batches of any size read each once and know its line."""

import json
from pathlib import Path

import pytest
from groundline_indexing.imports import files as import_files
from groundline_indexing.imports.files import batches_of, records_of
from groundline_indexing.imports.records import ImportFileError, given_record
from groundline_runtime.errors import InvalidArgumentError

LINES = ['{"uri": "a"}', "", '{"uri": "b", "text": "' + "long " * 20 + '"}', "no JSON", '{"uri": "c"}', "{}"]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 13, 14, 15, 50, 1000])
def test_each_record_is_read_once_with_its_line_however_files_are_divided(
    size: int, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_files, "BATCH_BYTES", size)
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        file.write_text("\n".join(LINES) + ending)
    expected = [
        (number, "is not JSON" if line == "no JSON" else json.loads(line))
        for number, line in enumerate(LINES, start=1)
        if line
    ]
    batches = batches_of(files)
    assert [batch.number for batch in batches] == list(range(len(batches)))
    for file in files:
        assert [record for batch in batches if batch.path == file for record in records_of(batch)] == expected


@pytest.mark.parametrize("text", ["half of a pair: \ud800", 5, ["a"], {"a": "b"}])
def test_a_text_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(InvalidArgumentError):
        given_record({"uri": "a", "text": text}, 3)


def test_a_record_may_have_null_for_what_it_does_not_give() -> None:
    record = given_record({"uri": "a", "text": "words", "title": None}, 3)
    assert (record.given.content, record.given.title) == ("words", "")


def test_what_is_no_file_that_can_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError, match=tmp_path.name):
        batches_of([tmp_path])
