"""Mails and archives: their members, and the bounds of them."""

import base64
import io
import mailbox
import zipfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from groundline.v1 import error_pb2
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.members import FoundMember, MemberSpool
from groundline_extraction.sandbox import Sandbox
from groundline_tests.extraction.files import saved, titles, workbook, zip_of


def mail(**attachments: bytes) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Ada <ada@example.org>", "Bob <bob@example.org>"
    message["Subject"] = "Grüße vom Ventil"
    message["Date"] = "Thu, 01 Jan 2026 10:00:00 +0000"
    message.set_content("Dear Bob,\n\nthe valve opens at 41 °C, as you asked.\n")
    message.add_alternative("<p>Dear Bob,</p>", subtype="html")
    for name, data in attachments.items():
        file_name = name.replace("_", ".")
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=file_name)
    return message


@dataclass
class Found:
    """Members found within a file."""

    text: str
    members: Mapping[str, FoundMember]
    contents: Mapping[str, bytes]

    def reasons(self) -> dict[str, str]:
        """Return why members are not read."""
        return {
            path: error_pb2.ErrorReason.Name(one.failure.reason)
            for path, one in self.members.items()
            if one.failure
        }


@pytest.fixture
def find(sandbox: Sandbox) -> Any:
    def find(content: bytes, uri: str = "") -> Found:
        with closing(MemberSpool(None)) as spool:
            stream = DocumentExtractor(sandbox).read(GivenDocument(content, uri=uri), members=spool)
            text = "".join(segment.text for segment in stream.segments)
            contents = {
                one.path: b"".join(one.content.parts(1000))
                for one in spool.found
                if isinstance(one.content, FileContent)
            }
            return Found(text, {one.path: one for one in spool.found}, contents)

    return find


def test_a_mail_is_its_text_and_each_attachment_a_file_of_its_own(extract: Any, find: Any) -> None:
    table, inner = saved(workbook()), mail(notes_txt="größer".encode("latin-1")).as_bytes()
    content = mail(sales_xlsx=table, old_eml=inner, tool_bin=b"\x7fELF", empty_txt=b" \n").as_bytes()
    found = find(content, "a.eml")
    assert found.text.startswith(
        "# Grüße vom Ventil\n\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n"
    )
    assert "the valve opens at 41 °C, as you asked." in found.text
    assert found.text.endswith("Attachments: sales.xlsx, old.eml, tool.bin, empty.txt")
    assert list(found.members) == ["sales.xlsx", "old.eml", "old.eml!/notes.txt", "tool.bin", "empty.txt"]
    assert found.members["old.eml!/notes.txt"].container == "old.eml"
    assert found.contents == {
        "sales.xlsx": table,
        "old.eml": inner,
        "old.eml!/notes.txt": "größer".encode("latin-1"),
    }
    assert found.reasons() == {"tool.bin": "UNSUPPORTED_TYPE", "empty.txt": "EMPTY_TEXT"}
    extraction = extract(content, "a.eml")
    assert (extraction.text, extraction.title) == (found.text, "Grüße vom Ventil")


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_message_of_an_mbox_is_a_section(find: Any, extract: Any, tmp_path: Path, line_end: bytes) -> None:
    box = mailbox.mbox(tmp_path / "box")
    box.add(mail(valves_csv=b"Name,Width\nA,4\n"))
    second = EmailMessage()
    second["From"], second["Subject"], second["To"] = "Bob <bob@example.org>", "Thanks", "ada@example.org"
    second.set_content("Thank you.\n\nFrom now on I know.\n")
    box.add(second)
    box.add(mail(valves_csv=b"Name,Width\nB,5\n"))
    box.close()
    content = (tmp_path / "box").read_bytes().replace(b"\n", line_end)
    assert b">From now" in content
    found = find(content)
    assert found.text.count("# Grüße vom Ventil\n\nFrom: Ada <ada@example.org>") == 2
    assert "# Thanks\n\nFrom: Bob <bob@example.org>\nTo: ada@example.org\n\nThank you.\n\nFrom now on" in (
        found.text.replace("\r", "")
    )
    assert list(found.members) == ["valves.csv", "valves (2).csv"]
    assert [title for _, title in titles(extract(content, "box.mbox", "application/mbox"))] == [
        "Grüße vom Ventil",
        "Thanks",
        "Grüße vom Ventil",
    ]


@pytest.mark.parametrize("markup", ["", " \n", "<html><body></body></html>", "<!-- nothing -->"])
@pytest.mark.parametrize("text", ["Agreed.", ""])
def test_a_mail_whose_html_has_no_text_is_its_plain_text(extract: Any, text: str, markup: str) -> None:
    message = EmailMessage()
    message["Subject"] = "Grüße vom Ventil"
    message.set_content(text)
    message.add_alternative(markup, subtype="html")
    read = extract(message.as_bytes()).text
    assert "Grüße vom Ventil" in read
    assert text in read


def test_lines_that_begin_like_envelopes_divide_no_mail(extract: Any) -> None:
    envelope = "From a@b.org Thu Jan  1 10:00:00 2026\n"
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ada@example.org", "bob@example.org", "Logs"
    message.set_content(f"Dear Bob,\n\nFrom Ada at 10:00\nit was open.\n\n{envelope}Subject: x\n")
    alone = message.as_bytes()
    assert len(extract(alone).headings) == 1
    assert "Subject: x" in extract(alone).text
    in_box = envelope.encode() + alone.replace(envelope.encode() + b"Subject", b"")
    assert [title for _, title in titles(extract(in_box))] == ["Logs"]


def test_attachments_that_share_a_name_or_have_none_are_told_apart(find: Any) -> None:
    message = mail()
    for text in ("one", "two"):
        message.add_attachment(text, filename="same.txt")
    forwarded = EmailMessage()
    forwarded["Subject"], forwarded["From"] = "Re: prices/2026", "eve@example.org"
    forwarded.set_content("Forwarded.")
    message.add_attachment(forwarded)
    message.add_attachment("bare")
    message.add_attachment("up", filename="../../etc/a!/b.txt")
    found = find(message.as_bytes(), "a.eml")
    names = ["same.txt", "same (2).txt", "Re: prices-2026.eml", "attachment 4.txt", "etc/a/b.txt"]
    assert list(found.members) == names
    assert found.contents["same (2).txt"].strip() == b"two"


def test_base64_of_a_mail_is_not_taken_for_its_text(extract: Any) -> None:
    content = (
        b"From: a@example.org\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes("Der größte Wert ist 41.".encode())
    )
    assert extract(content).text.endswith("Der größte Wert ist 41.")


def test_an_archive_is_a_list_and_each_member_a_file_of_its_own(find: Any) -> None:
    parts: dict[str, bytes | str] = {
        "docs/guide.md": "# Valve\n\nOpens.",
        "docs/sales.csv": "Region,Q1\nNorth,5\n",
        "__MACOSX/docs/._guide.md": b"\x00\x05",
        "tool.bin": b"\x7fELF",
        "inner.zip": zip_of({"deep.txt": "Deep down."}),
    }
    found = find(zip_of(parts))
    assert found.text == "- docs/guide.md\n- docs/sales.csv\n- tool.bin\n- inner.zip"
    assert found.contents == {
        "docs/guide.md": b"# Valve\n\nOpens.",
        "docs/sales.csv": b"Region,Q1\nNorth,5\n",
        "inner.zip": parts["inner.zip"],
        "inner.zip!/deep.txt": b"Deep down.",
    }
    assert found.reasons() == {"tool.bin": "UNSUPPORTED_TYPE"}


def encrypted(archive: bytes, *names: str) -> bytes:
    """Return the archive with its members marked as encrypted: their bytes say nothing then."""
    changed = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for entry in file.infolist():
            if entry.filename in names:
                changed[entry.header_offset + 6] |= 1
    at = changed.find(b"PK\x01\x02")
    while at >= 0:
        name = changed[at + 46 : at + 46 + int.from_bytes(changed[at + 28 : at + 30], "little")].decode()
        changed[at + 8] |= name in names
        at = changed.find(b"PK\x01\x02", at + 4)
    return bytes(changed)


def test_a_member_that_cannot_be_had_costs_no_other_one(find: Any) -> None:
    archive = zip_of({"secret.txt": "psst", "broken.txt": "text " * 1000, "open.txt": "Open."})
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        at = file.getinfo("broken.txt").header_offset + 30 + len("broken.txt")
    archive = archive[: at + 2] + b"\xff\xff" + archive[at + 4 :]
    found = find(encrypted(archive, "secret.txt"))
    assert found.contents == {"open.txt": b"Open."}
    assert found.reasons() == {"secret.txt": "ENCRYPTED_DOCUMENT", "broken.txt": "CORRUPT_DOCUMENT"}


def nested(depth: int) -> bytes:
    content: bytes | str = "text"
    for _ in range(depth):
        content = zip_of({"inner.zip" if isinstance(content, bytes) else "text.txt": content})
    assert isinstance(content, bytes)
    return content


def test_files_are_found_three_deep(find: Any) -> None:
    found = find(nested(8))
    three = "inner.zip!/inner.zip!/inner.zip"
    assert list(found.members) == ["inner.zip", "inner.zip!/inner.zip", three, f"{three}!/inner.zip"]
    assert found.reasons() == {f"{three}!/inner.zip": "DOCUMENT_TOO_LARGE"}


@pytest.mark.parametrize(
    "content",
    [
        zip_of({f"{n}.zip": zip_of({f"{m}.txt": "x" for m in range(500)}) for n in range(3)}),
        zip_of({f"{n}.zip": zip_of({"a.txt": "x" * (3 * 1024**2)}) for n in range(2)}),
    ],
    ids=["many", "large"],
)
def test_what_is_within_a_file_is_bounded_at_all_depths_together(find: Any, content: bytes) -> None:
    with pytest.raises(IngestionError) as raised:
        find(content)
    assert raised.value.failure.reason == error_pb2.DOCUMENT_TOO_LARGE


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encrypted(zip_of({"a.txt": "x"}), "a.txt"), "ENCRYPTED_DOCUMENT"),
        (zip_of({f"{n}.txt": "x" for n in range(1001)}), "DOCUMENT_TOO_LARGE"),
        (zip_of({"a.txt": bytes(5 * 1024**2)}), "DOCUMENT_TOO_LARGE"),
        (zip_of({}), "EMPTY_TEXT"),
        (b"PK\x03\x04rest", "CORRUPT_DOCUMENT"),
        (zip_of({"xl/workbook.xml": "<x/>"}), "CORRUPT_DOCUMENT"),
        (zip_of({"ppt/presentation.xml": "<x/>"}), "CORRUPT_DOCUMENT"),
        (zip_of({"META-INF/container.xml": "<x/>"}), "CORRUPT_DOCUMENT"),
        (
            zip_of({"content.xml": "<x/>"}, first="application/vnd.oasis.opendocument.text"),
            "CORRUPT_DOCUMENT",
        ),
        (b"<?xml version='1.0'?><a><b></a>", "CORRUPT_DOCUMENT"),
        (b"{\\rtf1 \\ansi }", "EMPTY_TEXT"),
    ],
)
def test_what_is_too_much_closed_or_broken_is_refused(extract: Any, content: bytes, reason: str) -> None:
    with pytest.raises(IngestionError) as raised:
        extract(content)
    assert error_pb2.ErrorReason.Name(raised.value.failure.reason) == reason
