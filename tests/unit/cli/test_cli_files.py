"""Which files are documents."""

import base64
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Literal

import pytest
from groundline_cli.files import Description, SourceFile, UnreadableFileError, is_excluded, scan


def put(root: Path, name: str, content: str | bytes = "text") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def uris(*paths: Path) -> list[str]:
    return [file.uri for file in scan(paths).files]


@pytest.mark.parametrize(("content", "reason"), [(b"\x7fELF\0", "unsupported type"), (b"", "empty")])
def test_a_named_file_that_says_nothing_is_a_failure(tmp_path: Path, content: bytes, reason: str) -> None:
    file = put(tmp_path, "program", content)
    found = scan([file])
    assert not found.files
    assert [(failure.name, failure.reason) for failure in found.failures] == [(str(file), reason)]


@pytest.mark.usefixtures("not_root")
def test_a_file_that_may_not_be_read_is_a_failure_and_the_others_are_taken(tmp_path: Path) -> None:
    put(tmp_path, "open.md")
    put(tmp_path, "closed/secret.csv").chmod(0)
    found = scan([tmp_path])
    assert [file.uri for file in found.files] == ["open.md"]
    assert [(one.name, one.reason) for one in found.failures] == [("closed/secret.csv", "Permission denied")]


def test_a_named_file_that_is_missing_is_a_failure(tmp_path: Path) -> None:
    (failure,) = scan([tmp_path / "gone.md"]).failures
    assert failure.reason == "No such file or directory"


def test_two_files_of_one_name_are_not_put_on_top_of_each_other(tmp_path: Path) -> None:
    one, other = put(tmp_path, "one/a.md"), put(tmp_path, "two/a.md")
    found = scan([one.parent, other.parent])
    assert [file.path for file in found.files] == [one]
    assert [failure.name for failure in found.failures] == [str(other)]


def test_a_file_named_twice_is_taken_once(tmp_path: Path) -> None:
    path = put(tmp_path, "a.md")
    found = scan([path, tmp_path, path])
    assert [file.uri for file in found.files] == ["a.md"]
    assert not found.failures


@pytest.mark.usefixtures("not_root")
def test_a_directory_that_may_not_be_read_is_a_failure(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        (failure,) = scan([tmp_path]).failures
    finally:
        closed.chmod(0o700)
    assert failure.name == str(closed)


def test_a_name_that_is_not_utf8_is_a_failure(tmp_path: Path) -> None:
    try:
        put(tmp_path, os.fsdecode(b"\xff.md"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (failure,) = scan([tmp_path]).failures
    assert failure.reason == "its name is not valid UTF-8"


def test_links_to_directories_are_passed_over_so_that_none_leads_in_circles(tmp_path: Path) -> None:
    put(tmp_path, "docs/a.md")
    (tmp_path / "docs" / "again").symlink_to(tmp_path / "docs")
    (tmp_path / "docs" / "b.md").symlink_to(tmp_path / "docs" / "a.md")
    found = scan([tmp_path / "docs"])
    assert [file.uri for file in found.files] == ["a.md", "b.md"]
    assert found.skipped == {"link to a directory": 1}


def test_a_link_to_itself_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    assert scan([tmp_path]).skipped == {"not a file": 1}


def test_a_directory_may_itself_be_named_by_a_link(tmp_path: Path) -> None:
    put(tmp_path, "docs/a.md")
    (tmp_path / "link").symlink_to(tmp_path / "docs")
    assert uris(tmp_path / "link") == ["a.md"]


def test_hidden_and_other_files_are_passed_over_and_counted(tmp_path: Path) -> None:
    for name in ("a.md", ".hidden.md", ".git/config"):
        put(tmp_path, name)
    put(tmp_path, "program.jar", b"PK\x03\x04 no document")
    put(tmp_path, "library.so", b"\x7fELF\0")
    put(tmp_path, "__init__.py", "")
    (tmp_path / "broken.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    found = scan([tmp_path])
    assert [file.uri for file in found.files] == ["a.md"]
    assert found.skipped == {"hidden": 2, "unsupported type": 2, "not a file": 2, "empty": 1}


def test_what_is_excluded_is_passed_over_with_all_below_it(tmp_path: Path) -> None:
    for name in ("a.md", "a.log", "node_modules/b/c.md", "docs/old/d.md", "docs/e.md"):
        put(tmp_path, name)
    found = scan([tmp_path], ["*.log", "node_modules", "docs/old"])
    assert [file.uri for file in found.files] == ["a.md", "docs/e.md"]
    assert found.skipped == {"excluded": 3}
    assert is_excluded("node_modules/b/c.md", ["node_modules"])
    assert not is_excluded("docs/e.md", ["*.log", "e"])


def docx() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("word/document.xml", "<w:document/>")
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("unnamed", b"%PDF-1.7\n\xff\0"),
        ("letter", docx()),
        ("photo.bin", b"\xff\xd8\xff\xe0\0"),
        ("scan", b"II*\0\0"),
        ("picture", b"RIFF\0\0\0\0WEBPVP8 "),
        ("page.html", b"<p>text</p>"),
        ("wide.csv", "a,ä".encode("utf-16")),
        ("unmarked.csv", "a,ä".encode("utf-16-be")),
        ("export.csv", "Größe;9 €".encode("cp1252")),
        ("page.htm", "<p>Größe</p>".encode("latin-1")),
        ("main.rs", b"fn main() {}"),
    ],
)
def test_other_kinds_are_handed_in_as_they_are(tmp_path: Path, name: str, content: bytes) -> None:
    [file] = scan([put(tmp_path, name, content)]).files
    assert list(file.documents()) == [{"uri": name, "data": base64.b64encode(content).decode()}]


OFFICE = "application/vnd.openxmlformats-officedocument"


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.pdf", "application/pdf"),
        ("b.PNG", "image/png"),
        ("c.xlsm", f"{OFFICE}.spreadsheetml.sheet"),
        ("d.docm", f"{OFFICE}.wordprocessingml.document"),
        ("e.pptm", f"{OFFICE}.presentationml.presentation"),
        ("f.mbox", "message/rfc822"),
    ],
)
def test_a_file_is_sent_as_what_its_name_promises(tmp_path: Path, name: str, mime_type: str) -> None:
    [file] = scan([put(tmp_path, name, "no such thing")]).files
    [given] = file.documents()
    assert given["mimeType"] == mime_type


RECORD = {"type": "object", "properties": {"uri": "part:7", "name": "valve"}, "metadata": {"site": "Kiel"}}


@pytest.mark.parametrize(
    "text",
    [json.dumps(RECORD), json.dumps([RECORD]), f"{json.dumps(RECORD)}\n"],
    ids=["one", "a list", "lines"],
)
def test_records_in_json_are_objects(tmp_path: Path, text: str) -> None:
    [file] = scan([put(tmp_path, "parts.json", text)]).files
    assert list(file.documents()) == [
        {"uri": "part:7", "object": {"properties": RECORD["properties"]}, "metadata": {"site": "Kiel"}}
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "object", "properties": {"name": {"type": "string"}}}',
        '[{"type": "object", "properties": {}}, {"other": 1}]',
        '{"type": "object", "properties": ',
    ],
    ids=["a schema", "others among them", "cut off"],
)
def test_other_json_is_a_file(tmp_path: Path, text: str) -> None:
    [file] = scan([put(tmp_path, "some.json", text)]).files
    assert list(file.documents()) == [{"uri": "some.json", "data": base64.b64encode(text.encode()).decode()}]


def test_files_are_known_by_their_path_below_what_was_named(tmp_path: Path) -> None:
    for name in ("b/c/deep.txt", "b/a.MARKDOWN", "z.rst"):
        put(tmp_path, name)
    found = scan([tmp_path, tmp_path / "b" / "a.MARKDOWN"])
    assert [(file.uri, file.mime_type) for file in found.files] == [
        ("b/a.MARKDOWN", "text/markdown"),
        ("b/c/deep.txt", "text/plain"),
        ("z.rst", "text/x-rst"),
        ("a.MARKDOWN", "text/markdown"),
    ]


def test_a_file_without_an_extension_is_judged_by_its_content(tmp_path: Path) -> None:
    put(tmp_path, "LICENSE", "ä" * 5000)  # the first 8 KiB end within a character
    put(tmp_path, "program", b"\x7fELF\0\0")
    put(tmp_path, "latin", b"caf\xe9 au lait")
    found = scan([tmp_path])
    assert [file.uri for file in found.files] == ["LICENSE"]
    assert found.skipped == {"unsupported type": 2}


def test_a_named_text_file_is_taken_whatever_its_extension(tmp_path: Path) -> None:
    assert uris(put(tmp_path, "settings.conf", "a = 1")) == ["settings.conf"]


def test_text_that_is_not_utf_8_is_for_the_ingestor(tmp_path: Path) -> None:
    [given] = SourceFile(put(tmp_path, "a.md", b"caf\xe9"), "a.md", "text", "text/markdown").documents()
    assert base64.b64decode(given["data"]) == b"caf\xe9"
    assert given["mimeType"] == "text/markdown"


def test_wide_text_without_a_mark_is_for_the_ingestor(tmp_path: Path) -> None:
    content = "wide".encode("utf-16-le")
    [given] = SourceFile(put(tmp_path, "a.md", content), "a.md", "text", "text/markdown").documents()
    assert base64.b64decode(given["data"]) == content


@pytest.mark.parametrize(
    ("sidecar", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"owner": "ann"}', "has owner; there are title, mimeType, metadata, allowedPrincipals"),
        ('{"metadata": "red"}', "metadata is of the wrong type"),
    ],
)
def test_a_description_that_is_wrong_fails_its_file(tmp_path: Path, sidecar: str, reason: str) -> None:
    put(tmp_path, "a.md")
    put(tmp_path, "a.md.meta.json", sidecar)
    found = scan([tmp_path])
    assert found.skipped == {"description": 1}
    with pytest.raises(UnreadableFileError, match=reason):
        list(found.files[0].documents())


def test_what_describes_no_file_is_one(tmp_path: Path) -> None:
    put(tmp_path, "alone.meta.json", "{}")
    assert uris(tmp_path) == ["alone.meta.json"]


def test_what_is_said_of_all_records_yields_to_their_own(tmp_path: Path) -> None:
    path = put(tmp_path, "parts.json", json.dumps(RECORD))
    given = Description(metadata={"site": "Rome", "year": 2024}, allowed_principals=("group:a",))
    [document] = next(iter(scan([path], given=given).files)).documents()
    assert document["metadata"] == {"site": "Kiel", "year": 2024}
    assert document["allowedPrincipals"] == ["group:a"]


def test_a_file_that_has_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="No such file"):
        list(SourceFile(tmp_path / "a.md", "a.md", "text").documents())


@pytest.mark.parametrize(("form", "most"), [("text", 64), ("data", 47)])
def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, form: Literal["text", "data"], most: int
) -> None:
    path = put(tmp_path, "a.md")
    os.truncate(path, (most << 20) + 1)
    with pytest.raises(UnreadableFileError, match=f"larger than {most} MiB"):
        list(SourceFile(path, "a.md", form).documents())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path, encoding: str) -> None:
    file = SourceFile(put(tmp_path, "a.md", "Größe".encode(encoding)), "a.md", "text")
    assert list(file.documents()) == [{"uri": "a.md", "text": "Größe"}]
