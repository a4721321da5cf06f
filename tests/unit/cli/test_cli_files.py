"""Which files are documents."""

import os
from pathlib import Path

import pytest
from groundline_cli.files import SourceFile, UnreadableFileError, scan


def put(root: Path, name: str, content: str | bytes = "text") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def uris(*paths: Path) -> list[str]:
    return [file.uri for file in scan(paths).files]


def test_a_named_file_that_is_not_text_is_a_failure(tmp_path: Path) -> None:
    image = put(tmp_path, "image.png", b"\x89PNG\0")
    found = scan([image])
    assert not found.files
    assert [(failure.name, failure.reason) for failure in found.failures] == [(str(image), "not a text file")]


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
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


def test_a_directory_may_itself_be_named_by_a_link(tmp_path: Path) -> None:
    put(tmp_path, "docs/a.md")
    (tmp_path / "link").symlink_to(tmp_path / "docs")
    assert uris(tmp_path / "link") == ["a.md"]


def test_hidden_and_other_files_are_passed_over_and_counted(tmp_path: Path) -> None:
    for name in ("a.md", ".hidden.md", ".git/config", "data.json", "image.png"):
        put(tmp_path, name)
    (tmp_path / "broken.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    found = scan([tmp_path])
    assert [file.uri for file in found.files] == ["a.md"]
    assert found.skipped == {"hidden": 2, "unsupported type": 2, "not a file": 2}


def test_files_are_known_by_their_path_below_what_was_named(tmp_path: Path) -> None:
    for name in ("b/c/deep.txt", "b/a.MARKDOWN", "z.rst"):
        put(tmp_path, name)
    found = scan([tmp_path, tmp_path / "b" / "a.MARKDOWN"])
    assert [(file.uri, file.mime_type) for file in found.files] == [
        ("b/a.MARKDOWN", "text/markdown"),
        ("b/c/deep.txt", "text/plain"),
        ("z.rst", "text/plain"),
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


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"caf\xe9", r"not UTF-8 text \(at byte 3\)"), (b"\xff\xfea", "not UTF-16 text")],
)
def test_text_that_cannot_be_decoded_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    file = SourceFile(put(tmp_path, "a.md", content), "a.md", "text/markdown")
    with pytest.raises(UnreadableFileError, match=reason):
        file.read_text()


def test_a_file_that_has_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="No such file"):
        SourceFile(tmp_path / "a.md", "a.md", "text/markdown").read_text()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = put(tmp_path, "a.md")
    os.truncate(path, (64 << 20) + 1)
    with pytest.raises(UnreadableFileError, match="larger than 64 MiB"):
        SourceFile(path, "a.md", "text/markdown").read_text()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path, encoding: str) -> None:
    file = SourceFile(put(tmp_path, "a.md", "Größe".encode(encoding)), "a.md", "text/markdown")
    assert file.read_text() == "Größe"
