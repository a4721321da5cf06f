"""Extraction of DOC, PPT (written by LibreOffice) and MSG, TAR and compressed files, and saved pages."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from groundline.v1 import error_pb2
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.members import MemberSpool
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_tests.extraction.compound_files import compound_file

LIMITS = ReaderLimits(max_pages=20, max_unpacked_bytes=4 * 1024**2, seconds=60)
FILES = Path(__file__).parent / "files"

type Find = Callable[..., tuple[str, Mapping[str, bytes | str]]]


@pytest.fixture(scope="module")
def find() -> Iterator[Find]:
    with Sandbox(LIMITS) as sandbox:

        def find(content: bytes, uri: str = "") -> tuple[str, Mapping[str, bytes | str]]:
            """Return the text, and the content of each member, or the reason why it is not read."""
            with closing(MemberSpool(None)) as spool:
                stream = DocumentExtractor(sandbox).read(GivenDocument(content, uri=uri), members=spool)
                text = "".join(segment.text for segment in stream.segments)
                return text, {
                    one.path: b"".join(one.content.parts(1000))
                    if isinstance(one.content, FileContent)
                    else error_pb2.ErrorReason.Name(
                        getattr(one.failure, "reason", error_pb2.ERROR_REASON_UNSPECIFIED)
                    )
                    for one in spool.found
                }

        yield find


def stored(name: str) -> bytes:
    return gzip.decompress((FILES / f"{name}.gz").read_bytes())


def reason_of(find: Find, content: bytes, uri: str = "") -> str:
    with pytest.raises(IngestionError) as raised:
        find(content, uri)
    return error_pb2.ErrorReason.Name(raised.value.failure.reason)


# --- DOC and PPT ---


def test_a_doc_keeps_headings_lists_merged_cells_and_comments_and_loses_what_was_deleted(find: Find) -> None:
    assert find(stored("manual.doc")) == (
        "# Mounting Größe €\n\nOpens at 41 °C — “always”. 日本語 text.\n\n## Steps\n\n"
        "- one\n- two\n- alpha\n- beta\n\n"
        "| Valve | 2026 | 2026 |\n|---|---|---|\n| A | 1 | 2 |\n| A | 3 | 4 |\n\n"
        "After the table.\n\nTighten to 12 Nm.\n\n[Comment: Fahrenheit?]\n\n"
        "Confidential header\n\nFooter of Acme",
        {},
    )


def test_a_section_of_a_doc_ends_a_paragraph(find: Find) -> None:
    content = stored("manual.doc")
    end, section = (f"table.\x05{mark}Tighten".encode("utf-16-le") for mark in "\r\x0c")
    assert content.count(end) == 1
    assert "\n\nAfter the table.\n\nTighten" in find(content.replace(end, section))[0]


def test_a_ppt_is_read_slide_by_slide_with_notes(find: Find) -> None:
    text, _ = find(stored("slides.ppt"))
    assert text == (
        "## Mounting €\n\n- Close the screws\n- crosswise\n\n### Notes\n\nAsk who has a wrench.\n\n\f\n\n"
        "## Figures\n\non the left 日本\n\nValve\n\nWidth\n\nA\n\n4\n\n5"
    )


@pytest.mark.parametrize("name", ["manual.doc", "slides.ppt"])
def test_an_old_office_file_that_is_cut_off_or_overwritten_fails_alone(find: Find, name: str) -> None:
    content = stored(name)
    # Its directory, which tells its type, is at its end.
    assert reason_of(find, content[: len(content) // 3]) == "UNSUPPORTED_TYPE"
    for start in range(512, len(content), max(512, len(content) // 12)):
        broken = content[:start] + b"\xff" * 512 + content[start + 512 :]
        try:
            find(broken)
        except IngestionError as error:
            reason = error_pb2.ErrorReason.Name(error.failure.reason)
            assert reason in {
                "CORRUPT_DOCUMENT",
                "DOCUMENT_TOO_LARGE",
                "ENCRYPTED_DOCUMENT",
                "UNSUPPORTED_TYPE",
                "EMPTY_TEXT",
                "TOO_MANY_PAGES",
            }


def word(pieces: int, characters: int, *, version: int = 193, flags: int = 0) -> bytes:
    """Return a DOC whose pieces all lie in the same place."""
    ends = range(0, (pieces + 1) * characters, characters)
    table = struct.pack(f"<{pieces + 1}I", *ends) + struct.pack("<HIH", 0, 0x40000000 | 4096, 0) * pieces
    main = bytearray(512 * 16)
    struct.pack_into("<HH", main, 0, 0xA5EC, version)
    struct.pack_into("<H", main, 0x0A, flags)
    struct.pack_into("<I", main, 0x4C, pieces * characters)
    struct.pack_into("<II", main, 0x1A2, 0, len(table) + 5)
    return compound_file(
        {"WordDocument": bytes(main), "0Table": b"\x02" + struct.pack("<I", len(table)) + table}
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (word(2000, 4000), "DOCUMENT_TOO_LARGE"),
        (word(1, 100_000), "CORRUPT_DOCUMENT"),
        (word(1, 10, version=104), "UNSUPPORTED_TYPE"),
        (word(1, 10, flags=0x0100), "ENCRYPTED_DOCUMENT"),
        (
            compound_file({"PowerPoint Document": bytes(5000), "Current User": bytes(40)}),
            "ENCRYPTED_DOCUMENT",
        ),
        (
            compound_file(
                {
                    "PowerPoint Document": struct.pack("<HHIIIIII", 0, 0x0FF5, 28, 0, 0, 8 << 20, 0, 0),
                    "Current User": struct.pack("<IIIIII", 0, 0, 20, 0xE391C05F, 0, 0),
                }
            ),
            "CORRUPT_DOCUMENT",
        ),
        (compound_file({"Unknown": b"x"}), "UNSUPPORTED_TYPE"),
    ],
    ids=["bomb", "missing", "word-95", "encrypted-doc", "encrypted-ppt", "lost-parts", "unknown"],
)
def test_an_old_office_file_hostile_closed_or_older_fails(find: Find, content: bytes, reason: str) -> None:
    assert reason_of(find, content) == reason


def test_a_ppt_whose_saves_lead_in_a_circle_is_refused(find: Find) -> None:
    edit = struct.pack("<HHI5I", 0, 0x0FF5, 20, 0, 0, 100, 100, 1) + bytes(72)
    again = struct.pack("<HHI5I", 0, 0x0FF5, 20, 0, 0, 100, 0, 1)
    user = struct.pack("<IIIII", 0, 0, 20, 0xE391C05F, 0)
    content = compound_file({"PowerPoint Document": edit + again, "Current User": user})
    assert reason_of(find, content) == "DOCUMENT_TOO_LARGE"


# --- MSG ---


def texts(**values: str) -> dict[str, bytes]:
    return {f"__substg1.0_{tag[1:]}001F": value.encode("utf-16-le") for tag, value in values.items()}


def properties(header: int, **values: int) -> dict[str, bytes]:
    entries = (struct.pack("<IIQ", int(tag[1:], 16) << 16 | 3, 6, value) for tag, value in values.items())
    return {"__properties_version1.0": bytes(header) + b"".join(entries)}


def within(storage: str, *parts: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{storage}/{name}": data for part in parts for name, data in part.items()}


def message(depth: int) -> dict[str, bytes]:
    inner = within("__substg1.0_3701000D", message(depth - 1)) if depth else {}
    attached = within("__attach_version1.0_#00000001", inner, properties(8)) if depth else {}
    return texts(_0037=f"Depth {depth}", _1000="Inside.") | properties(24) | attached


def test_an_outlook_message_is_read_as_a_mail_with_its_attachments(find: Find) -> None:
    content = compound_file(
        texts(_0037="Grüße vom Ventil", _1000="Dear Bob,\r\n\r\nit opens at 41 °C, as you asked.\r\n")
        | texts(_0C1A="Ada Ä", _5D01="ada@example.org")
        | properties(32, _0039=134116416000000000)
        | within(
            "__recip_version1.0_#00000000",
            texts(_3001="Bob, Jr.", _39FE="bob@example.org"),
            properties(8, _0C15=1),
        )
        | within("__recip_version1.0_#00000001", texts(_3001="Eve"), properties(8, _0C15=2))
        | within(
            "__attach_version1.0_#00000000",
            texts(_3707="valves.csv"),
            {"__substg1.0_37010102": b"Name,Width\nA,4\n"},
            properties(8),
        )
        | within("__attach_version1.0_#00000001", within("__substg1.0_3701000D", message(0)), properties(8))
    )
    text, members = find(content)
    assert text == (
        '# Grüße vom Ventil\n\nFrom: Ada Ä <ada@example.org>\nTo: "Bob, Jr." <bob@example.org>\nCc: Eve\n'
        "Date: Wed, 31 Dec 2025 08:00:00 +0000\n\nDear Bob,\n\nit opens at 41 °C, as you asked.\n\n"
        "Attachments: valves.csv, Depth 0.eml"
    )
    assert members["valves.csv"] == b"Name,Width\nA,4\n"
    inner = members["Depth 0.eml"]
    assert isinstance(inner, bytes)
    assert b"Inside." in inner


def test_messages_within_messages_are_bounded(find: Find) -> None:
    assert reason_of(find, compound_file(message(8) | properties(32))) == "DOCUMENT_TOO_LARGE"


# --- TAR and compressed files ---


def tar(files: Mapping[str, bytes], *others: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for other in others:
            archive.addfile(other)
    return out.getvalue()


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo("linked")
    entry.type, entry.linkname = kind, target
    return entry


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_tar_is_its_files_without_links_and_ways_out(find: Find, pack: Callable[[bytes], bytes]) -> None:
    inner = gzip.compress(b"Deep down.")
    content = tar(
        {"docs/guide.md": b"# Valve\n", "../../etc/a.txt": b"Up.", "n.txt.gz": inner, "t": b"\x7fELF"},
        link(tarfile.SYMTYPE, "/etc/passwd"),
        link(tarfile.LNKTYPE, "docs/guide.md"),
        link(tarfile.CHRTYPE, ""),
    )
    text, members = find(pack(content))
    assert text == "- docs/guide.md\n- ../../etc/a.txt\n- n.txt.gz\n- t"
    assert members == {
        "docs/guide.md": b"# Valve\n",
        "etc/a.txt": b"Up.",
        "n.txt.gz": inner,
        "n.txt.gz!/n.txt": b"Deep down.",
        "t": "UNSUPPORTED_TYPE",
    }


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_is_compressed_and_no_archive_is_its_only_file(find: Find, pack: Any) -> None:
    assert find(pack(b"a,b\n1,2\n"), "data/t.csv.gz") == ("- t.csv", {"t.csv": b"a,b\n1,2\n"})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(bytes(5 * 1024**2)), "DOCUMENT_TOO_LARGE"),
        (lzma.compress(tar({"a": bytes(5 * 1024**2)})), "DOCUMENT_TOO_LARGE"),
        (gzip.compress(tar({}, link(tarfile.SYMTYPE, "x"))), "EMPTY_TEXT"),
        (tar({f"{n}.txt": b"x" for n in range(1001)}), "DOCUMENT_TOO_LARGE"),
        (gzip.compress(tar({"a.txt": b"x" * 9000}))[:-20], "CORRUPT_DOCUMENT"),
        (tar({"a.txt": b"x" * 9000})[:5000], "CORRUPT_DOCUMENT"),
        (b"\x1f\x8b\x08" + bytes(40), "CORRUPT_DOCUMENT"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "UNSUPPORTED_TYPE"),
    ],
    ids=["bomb", "bomb-in-tar", "links-only", "many", "cut-gz", "cut-tar", "no-gz", "zstd"],
)
def test_an_archive_that_is_too_much_or_broken_is_refused(find: Find, content: bytes, reason: str) -> None:
    assert reason_of(find, content) == reason


# --- MHTML ---

SAVED = (
    b"From: <Saved by Blink>\r\nSnapshot-Content-Location: https://example.org/v\r\nSubject: Valves\r\n"
    b'MIME-Version: 1.0\r\nContent-Type: multipart/related; type="text/html"; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/css\r\n\r\np {}\r\n"
    b"--b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    b"<html><title>Valves</title><body><h1>Gr=C3=B6=C3=9Fe</h1><p>Opens at 41.</p></body></html>\r\n--b--\r\n"
)


@pytest.mark.parametrize("uri", ["", "valves.mht"])
def test_a_saved_page_is_read_as_the_page(find: Find, uri: str) -> None:
    assert find(SAVED, uri) == ("# Größe\n\nOpens at 41.", {})


def test_a_saved_page_without_a_page_is_refused(find: Find) -> None:
    assert reason_of(find, SAVED.replace(b"text/html;", b"text/x;"), "a.mhtml") == "CORRUPT_DOCUMENT"
