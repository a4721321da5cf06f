"""The manifest of real files is complete, what is fetched is checked, and what is read is held against it."""

import hashlib
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from groundline_benchmarks.extract.expectations import Found, check
from groundline_benchmarks.extract.fetching import fetch, is_there
from groundline_benchmarks.extract.real import Expected, Manifest, load_manifest
from pydantic import ValidationError

CONTENT = b"One two three."


def missed(found: Found, **expected: Any) -> list[str]:
    return [
        f"{one.kind}: {one.wanted}"
        for one in check(Expected.model_validate(expected), found)
        if not one.is_met
    ]


def manifest_of(*files: dict[str, Any]) -> Manifest:
    whole = [
        {
            "package": "one",
            "path": "docs/a.txt",
            "sha256": hashlib.sha256(CONTENT).hexdigest(),
            "format": "txt",
            "expected": {"phrases": ["two"]},
            **file,
        }
        for file in files
    ]
    return Manifest.model_validate({"packages": {"one": {"maven": "a:b:1:jar"}}, "files": whole})


def registry(directory: Path, monkeypatch: pytest.MonkeyPatch, script: Sequence[str]) -> None:
    """Put a client that runs these lines in place of Maven's."""
    client = directory / "bin" / "mvn"
    client.parent.mkdir()
    client.write_text("\n".join(("#!/bin/sh", *script)))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_file_of_no_package_or_twice_or_without_an_expectation_is_refused() -> None:
    with pytest.raises(ValidationError, match="not named: other"):
        manifest_of({}, {"package": "other", "sha256": "0" * 64})
    with pytest.raises(ValidationError, match="stands twice"):
        manifest_of({}, {"path": "docs/b.txt"})
    with pytest.raises(ValidationError, match="something must be found"):
        manifest_of({"expected": {"absent": ["menu"]}})
    with pytest.raises(ValidationError, match="extra"):
        manifest_of({"expected": {"phrase": ["two"]}})


def test_the_manifest_holds_more_than_sixty_files_of_the_formats_that_are_read() -> None:
    manifest = load_manifest()
    assert len(manifest.files) >= 60
    formats = {one.format for one in manifest.files}
    assert formats >= {"pdf", "docx", "doc", "odt", "ods", "odp", "pptx", "ppt", "xlsx", "xlsm", "xls", "rtf"}
    assert formats >= {"epub", "html", "mhtml", "eml", "mbox", "msg", "csv", "tsv", "txt", "md", "rst"}
    assert formats >= {"json", "xml", "ipynb", "source", "zip", "tar", "gz", "zst"}


def test_a_package_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry(tmp_path, monkeypatch, ["echo 'no such artifact' >&2", "exit 1"])
    failures = fetch(manifest_of({}), tmp_path / "real", print)
    assert failures == ["docs/a.txt: a:b:1:jar cannot be had: no such artifact"]


def test_a_file_that_is_another_or_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "b.jar", "w") as jar:
        jar.writestr("docs/a.txt", b"Changed since.")
    registry(tmp_path, monkeypatch, [f"cp {tmp_path}/b.jar ."])
    manifest = manifest_of({}, {"path": "docs/c.txt", "sha256": "0" * 64})
    assert fetch(manifest, tmp_path / "real", print) == [
        "docs/a.txt: another file than the one that was looked at",
        "docs/c.txt: not in one",
    ]
    assert not any(is_there(one, tmp_path / "real") for one in manifest.files)


def test_a_file_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "b.jar", "w") as jar:
        jar.writestr("docs/a.txt", CONTENT)
    registry(tmp_path, monkeypatch, [f"mv {tmp_path}/b.jar ."])
    manifest = manifest_of({})
    assert fetch(manifest, tmp_path / "real", print) == []
    assert manifest.files[0].place(tmp_path / "real").read_bytes() == CONTENT
    assert fetch(manifest, tmp_path / "real", print) == []


def test_phrases_count_in_their_order_and_without_marks() -> None:
    found = Found("# A *title*\n\nSome `words`, then [a link](x.html)\nand an end\\.")
    assert not missed(found, phrases=["A title", "words, then a link and an end."])
    assert missed(found, phrases=["an end.", "A title"]) == ["phrase: A title"]


def test_what_should_not_be_there_is_missed_where_it_is_and_where_nothing_is_read() -> None:
    assert missed(Found("Text, deleted"), phrases=["Text"], absent=["deleted"]) == ["absent: deleted"]
    assert missed(Found(refused="CORRUPT_DOCUMENT"), phrases=["Text"], absent=["x"]) == [
        "phrase: Text",
        "absent: x",
    ]


def test_cells_are_found_in_tables_and_in_records_by_row_and_column() -> None:
    table = Found("| Name | Size |\n|---|---|\n| valve | 3 |\n| pump | 4 |")
    assert not missed(table, rows=[["pump", "4"]], cells=[["valve", "Size", "3"]])
    assert missed(table, rows=[["valve", "4"]], cells=[["valve", "Size", "4"]]) == [
        "row: valve | 4",
        "cell: valve | Size | 4",
    ]
    records = Found("Name: valve\nSize: 3\n\nName: pump\nSize: 4")
    assert not missed(records, rows=[["pump", "4"]], cells=[["valve", "Size", "3"]])
    assert missed(records, cells=[["valve", "Size", "4"]]) == ["cell: valve | Size | 4"]


def test_headings_pages_members_and_refusals_are_held_against_what_was_found() -> None:
    found = Found("one\fa two", ["*Title*"], {"a/b.txt": "within"})
    expected = {"headings": ["Title"], "pages": {"2": ["two"]}, "members": {"a/b.txt": ["within"]}}
    assert not missed(found, **expected)
    assert missed(Found("two\fone"), **expected) == [
        "heading: Title",
        "page 2: two",
        "member: a/b.txt",
        "member a/b.txt: within",
    ]
    assert not missed(Found(refused="ENCRYPTED_DOCUMENT"), refused="ENCRYPTED_DOCUMENT")
    assert missed(found, refused="ENCRYPTED_DOCUMENT") == ["refused: ENCRYPTED_DOCUMENT"]
