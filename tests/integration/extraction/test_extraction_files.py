"""Files that are read in processes of their own: what they say, and what becomes of the hostile."""

import io
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import docx
import psutil
import pypdf
import pytest
import structlog
from groundline.v1 import error_pb2
from groundline_extraction.documents import GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.ocr import find_ocr_data
from groundline_extraction.readers.common import ReaderLimits, ReadError
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.texts import ExtractedText
from groundline_tests.programs import needs_program
from PIL import Image, ImageDraw, ImageFont

OCR_DATA = find_ocr_data(None)
LIMITS = ReaderLimits(
    max_pages=20, max_unpacked_bytes=4 * 1024**2, max_image_pixels=1_000_000, seconds=60, ocr_data=OCR_DATA
)
needs_tesseract = needs_program("tesseract-ocr", found=bool(OCR_DATA))

SENTENCE = "The relief valve opens at 41 degrees"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as sandbox:
        yield sandbox


def extract(sandbox: Sandbox, content: bytes, uri: str = "") -> ExtractedText:
    return DocumentExtractor(sandbox).extract(GivenDocument(content, uri=uri))


def reason_of(sandbox: Sandbox, content: bytes) -> str:
    with pytest.raises(IngestionError) as raised:
        extract(sandbox, content)
    return error_pb2.ErrorReason.Name(raised.value.failure.reason)


# --- making files ---


def pdf_of(*pages: str, title: str = "", outline: bool = False, password: str | None = None) -> bytes:
    """Return a PDF with a text on each page, written by hand: libraries that write text are not needed
    elsewhere."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for page in pages:
        stream = f"BT /F1 12 Tf 72 700 Td ({page}) Tj ET".encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    table = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table))
    if not (title or outline or password is not None):
        return out.getvalue()
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(out.getvalue()))
    if title:
        writer.add_metadata({"/Title": title})
    if outline:
        for number in range(len(pages)):
            chapter = writer.add_outline_item(title=f"Chapter {number + 1}", page_number=number)
            writer.add_outline_item(title="Details", page_number=number, parent=chapter)
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def docx_of() -> bytes:
    document = docx.Document()
    document.core_properties.title = "Valve manual"
    document.add_heading("Mounting", 1)
    document.add_paragraph("Close the four screws.")
    document.add_paragraph("clean", style="List Bullet")
    document.add_paragraph("dry", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip(
        (c for row in table.rows for c in row.cells), ("Screw", "Nm", "a|b", "9"), strict=True
    ):
        cell.text = text
    document.add_heading("Care", 2)
    document.add_paragraph("# not a heading")
    return saved(document)


def saved(document: "docx.document.Document") -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def zip_of(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def picture(text: str, file_format: str) -> bytes:
    image = Image.new("RGB", (900, 120), "white")
    ImageDraw.Draw(image).text((20, 30), text, fill="black", font=ImageFont.load_default(40))
    out = io.BytesIO()
    image.save(out, file_format)
    return out.getvalue()


def png_header(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"")) + part(b"IEND", b"")
    )


# --- broken and hostile files ---


def test_a_pdf_with_a_password_is_refused_as_such(sandbox: Sandbox) -> None:
    assert reason_of(sandbox, pdf_of(SENTENCE, password="secret")) == "ENCRYPTED_DOCUMENT"


@pytest.mark.parametrize(
    "content",
    [
        b"%PDF-1.7\n" + os.urandom(3000),
        b"%PDF-1.7",
        pdf_of(SENTENCE)[:300],
        zip_of({"word/document.xml": b"<w:document"}),
        zip_of({"word/document.xml": b"<x/>", "[Content_Types].xml": b"<x/>"}),
        docx_of()[:2000],
    ],
)
def test_a_broken_file_fails_with_its_reason(sandbox: Sandbox, content: bytes) -> None:
    assert reason_of(sandbox, content) in {"CORRUPT_DOCUMENT", "EMPTY_TEXT"}


def test_a_zip_bomb_is_not_unpacked(sandbox: Sandbox) -> None:
    bomb = zip_of({"word/document.xml": bytes(LIMITS.max_unpacked_bytes + 1), "[Content_Types].xml": b"<x/>"})
    assert len(bomb) < 10_000
    assert reason_of(sandbox, bomb) == "DOCUMENT_TOO_LARGE"


def test_a_pdf_whose_stream_unpacks_to_too_much_costs_only_itself(sandbox: Sandbox) -> None:
    packed = zlib.compress(b"BT (a) Tj ET " * 20_000_000, 9)
    plain = pdf_of("MARK")
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
    begin = plain.index(b"<< /Length")
    bomb = plain[:begin] + stream + plain[plain.index(b"endstream") + len(b"endstream") :]
    with Sandbox(replace(LIMITS, memory_bytes=600 * 1024**2, seconds=10)) as small:
        assert reason_of(small, bomb) in {
            "DOCUMENT_TOO_LARGE",
            "READER_CRASHED",
            "READER_TIMEOUT",
            "EMPTY_TEXT",
        }
        assert extract(small, pdf_of(SENTENCE)).text == SENTENCE


def test_pages_and_pixels_are_bounded(sandbox: Sandbox) -> None:
    assert reason_of(sandbox, pdf_of(*["page"] * 21)) == "TOO_MANY_PAGES"
    if OCR_DATA:
        assert reason_of(sandbox, png_header(1001, 1000)) == "DOCUMENT_TOO_LARGE"
        assert reason_of(sandbox, png_header(60_000, 60_000)) == "DOCUMENT_TOO_LARGE"


def test_a_docx_whose_cell_spans_millions_of_columns_is_refused(sandbox: Sandbox) -> None:
    parts = unzipped(docx_of())
    span = b'<w:tcPr><w:gridSpan w:val="30000000"/>'
    parts["word/document.xml"] = parts["word/document.xml"].replace(b"<w:tcPr>", span, 1)
    assert span in parts["word/document.xml"]
    assert reason_of(sandbox, zip_of(parts)) == "DOCUMENT_TOO_LARGE"


def test_a_docx_with_700_000_parts_is_refused(sandbox: Sandbox) -> None:
    small = zip_of({"word/document.xml": b"<w:document/>"})
    begin, end = small.index(b"PK\x01\x02"), small.index(b"PK\x05\x06")
    directory = small[begin:end] * 700_000
    record = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(directory), begin, 0)
    assert reason_of(sandbox, small[:begin] + directory + record) == "DOCUMENT_TOO_LARGE"


def test_a_small_file_has_less_time_than_a_large_one_and_one_that_gives_text_has_more() -> None:
    assert LIMITS.seconds_for(1000) < LIMITS.seconds_for(600_000) < LIMITS.seconds < LIMITS.seconds_for(10**9)
    assert LIMITS.seconds_for(1000) < LIMITS.seconds_for(1000, given=10**6)


def test_entities_of_a_docx_reach_no_file_and_do_not_multiply(sandbox: Sandbox) -> None:
    xml = zipfile.ZipFile(io.BytesIO(docx_of())).read("word/document.xml")
    declared = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    body = xml[xml.index(b"<w:document") :].replace(b"Close the four screws.", b"Close &a; screws.")
    parts = unzipped(docx_of())
    parts["word/document.xml"] = declared + body
    text = extract(sandbox, zip_of(parts)).text
    assert "Close" in text
    with open("/etc/hostname") as hostname:
        assert hostname.read().strip() not in text


def test_without_tesseract_an_image_fails_and_says_so() -> None:
    with Sandbox(replace(LIMITS, ocr_data="")) as sandbox:
        assert reason_of(sandbox, picture(SENTENCE, "PNG")) == "OCR_NOT_AVAILABLE"


@needs_tesseract
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_single_line_is_read_whichever_way_up(sandbox: Sandbox, degrees: int) -> None:
    out = io.BytesIO()
    Image.open(io.BytesIO(picture(SENTENCE, "PNG"))).rotate(degrees, expand=True).save(out, "PNG")
    assert extract(sandbox, out.getvalue()).text == SENTENCE


@needs_tesseract
def test_a_language_without_data_fails_that_image() -> None:
    with Sandbox(replace(LIMITS, ocr_languages="tlh")) as sandbox:
        assert reason_of(sandbox, picture(SENTENCE, "PNG")) == "OCR_FAILED"


def test_a_reader_that_takes_too_long_is_ended_with_all_it_started(sandbox: Sandbox) -> None:
    before = set(psutil.Process().children(recursive=True))
    with Sandbox(replace(LIMITS, seconds=0.01)) as hasty:
        assert reason_of(hasty, pdf_of(SENTENCE)) == "READER_TIMEOUT"
        assert set(psutil.Process().children(recursive=True)) <= before


def test_a_reader_that_gets_no_processor_for_longer_than_it_may_compute_reads_on() -> None:
    with Sandbox(replace(LIMITS, seconds=4.0), processes=1) as sandbox:
        others = set(psutil.Process().children())
        sandbox.read("web.html", b"<p>the first file starts the process</p>")
        (reader,) = set(psutil.Process().children()) - others
        reader.suspend()
        threading.Timer(5.0, reader.resume).start()
        assert sandbox.read("web.html", b"<p>read late</p>").text == "read late"


def test_a_reader_that_computes_for_too_long_is_said_to_take_too_long() -> None:
    with Sandbox(replace(LIMITS, seconds=0.5)) as sandbox, pytest.raises(ReadError) as raised:
        sandbox.read("web.html", b"<p><b>long</b> <i>work</i></p>" * 200_000)
    assert raised.value.reason == "READER_TIMEOUT"
    assert "2 seconds" in raised.value.message


def test_a_reader_that_takes_too_much_memory_fails_only_that_file() -> None:
    with Sandbox(replace(LIMITS, memory_bytes=400 * 1024**2, max_image_pixels=10**9)) as sandbox:
        with pytest.raises(ReadError) as raised:
            sandbox.read("images.image", png_header(25_000, 25_000))
        assert raised.value.reason in {"DOCUMENT_TOO_LARGE", "CORRUPT_DOCUMENT", "OCR_NOT_AVAILABLE"}
        assert sandbox.read("web.html", b"<p>still here</p>").text == "still here"


def test_a_reader_that_dies_is_replaced() -> None:
    with Sandbox(LIMITS, processes=1) as sandbox:
        before = set(psutil.Process().children())
        sandbox.read("web.html", b"<p>one</p>")
        [reader] = set(psutil.Process().children()) - before
        reader.kill()
        reader.wait()
        assert sandbox.read("web.html", b"<p>two</p>").text == "two"


def test_a_reader_without_a_file_for_long_is_ended_and_another_started_for_the_next() -> None:
    with Sandbox(LIMITS, idle_seconds=1) as sandbox:
        before = set(psutil.Process().children())
        readers: set[psutil.Process] = set()
        for client in ("ann", "bob"):
            sandbox.read("web.html", b"<p>one</p>", client=client)
            readers |= set(psutil.Process().children()) - before
        assert len(readers) == 2
        for reader in readers:
            reader.wait(timeout=30)
        assert sandbox.read("web.html", b"<p>two</p>", client="ann").text == "two"
        [another] = set(psutil.Process().children()) - before
        assert another not in readers


def test_no_process_reads_files_of_two_clients() -> None:
    with Sandbox(LIMITS, processes=2) as sandbox:
        before = set(psutil.Process().children())
        readers: dict[str, psutil.Process] = {}
        for client in ("ann", "bob", "ann", "bob", "eve"):
            sandbox.read("web.html", b"<p>one</p>", client=client)
            now = set(psutil.Process().children()) - before
            assert len(now) <= 2
            [reader] = now - {other for name, other in readers.items() if name != client}
            assert readers.setdefault(client, reader) == reader
            if client == "eve":
                assert readers["ann"] not in now


def test_readers_see_no_environment_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_INGESTOR_DATABASE_URL", "postgresql://secret")
    with Sandbox(LIMITS) as sandbox:
        before = set(psutil.Process().children())
        sandbox.read("web.html", b"<p>one</p>")
        [reader] = set(psutil.Process().children()) - before
        assert not any("GROUNDLINE" in name for name in reader.environ())


def test_a_closed_sandbox_reads_nothing_and_leaves_no_process() -> None:
    before = set(psutil.Process().children(recursive=True))
    sandbox = Sandbox(LIMITS)
    sandbox.read("web.html", b"<p>one</p>")
    sandbox.close()
    sandbox.close()
    assert set(psutil.Process().children(recursive=True)) <= before
    with pytest.raises(RuntimeError):
        sandbox.read("web.html", b"<p>two</p>")


# Stands in for a reader that a file has taken over; it is there before the process confines itself.
PROBE = """
import ctypes, json, os, pathlib, socket, subprocess, sys, tempfile, threading, types
from groundline_extraction.readers import worker
from groundline_extraction.readers.common import Read

def attempts(of):
    yield "connect", lambda: socket.create_connection(("127.0.0.1", of["port"]), 1)
    yield "listen", lambda: socket.create_server(("127.0.0.1", 0))
    yield "unix socket", lambda: socket.socketpair()
    yield "read a file", lambda: open(of["secret"]).read()
    yield "list a folder", lambda: os.listdir(os.path.dirname(of["secret"]))
    yield "write a file", lambda: open(of["secret"] + ".new", "w")
    yield "temporary file", lambda: tempfile.TemporaryFile(dir="/dev/shm")
    yield "delete a file", lambda: os.unlink(of["secret"])
    yield "write what it reads", lambda: os.pwrite(int(sys.argv[2]), b"other", 0)
    yield "cut what it reads", lambda: os.ftruncate(int(sys.argv[2]), 0)
    yield "environment of the service", lambda: open(f"/proc/{os.getppid()}/environ").read()
    yield "fork", os.fork
    yield "start a program", lambda: subprocess.run(["true"], check=True)
    yield "become a program", lambda: os.execv("/bin/true", ["true"])
    yield "thread", lambda: threading.Thread(target=print).start()
    yield "signal", lambda: os.kill(os.getppid(), 0)
    yield "trace", lambda: check(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))
    yield "limit of the service", lambda: __import__("resource").prlimit(os.getppid(), 7)
    yield "memory", lambda: bytearray(4 << 30)

def check(result):
    if result == -1:
        raise PermissionError

def read(data, hints, limits):
    done = []
    for name, attempt in attempts(json.loads(data)):
        try:
            attempt()
        except (OSError, RuntimeError, MemoryError):
            continue
        done.append(name)
    return Read(json.dumps(done))

probe = types.ModuleType("probe")
probe.read = read
sys.modules["groundline_extraction.readers.probe"] = probe
worker.main()
"""


def test_a_reader_reaches_neither_network_nor_files_nor_other_processes(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        data = json.dumps({"secret": str(secret), "port": server.getsockname()[1]}).encode()
        content = tmp_path / "content"
        content.write_bytes(data)
        request = json.dumps({"reader": "probe", "size": len(data), "hints": {}}).encode() + b"\n"
        with content.open("r+b") as file:
            limits, descriptor = json.dumps({"memory_bytes": 2 * 1024**3}), file.fileno()
            process = subprocess.run(
                [sys.executable, "-I", "-c", PROBE, limits, str(descriptor)],
                pass_fds=[descriptor],
                input=request,
                capture_output=True,
                check=True,
            )
    isolation, answer, end = map(json.loads, process.stdout.splitlines())
    assert not [said for said in isolation.values() if said.startswith("not restricted")]
    assert json.loads(answer["piece"]["text"]) == []
    assert end is None
    assert content.read_bytes() == data
    assert secret.read_text() == "secret"


def test_what_readers_are_confined_by_is_logged_once(sandbox: Sandbox) -> None:
    with structlog.testing.capture_logs() as logs, Sandbox(LIMITS, processes=1) as other:
        other.read("web.html", b"<p>one</p>")
        other.read("web.html", b"<p>two</p>")
    [entry] = [entry for entry in logs if entry["event"] == "readers_confined"]
    assert entry["log_level"] == "info"
    assert entry.keys() >= {"files", "system_calls", "privileges", "resources"}


def test_no_more_processes_read_than_may(sandbox: Sandbox) -> None:
    started = threading.Barrier(4)

    def read(number: int) -> str:
        started.wait()
        return sandbox.read("web.html", b"<p>text %d</p>" % number).text

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(read, range(4))) == [f"text {number}" for number in range(4)]
    assert len(psutil.Process().children()) <= 2 + 20, "the sandbox has two; other fixtures may have some"


# --- sound files ---


def test_a_pdf_is_read_page_by_page_with_its_outline_as_headings(sandbox: Sandbox) -> None:
    extraction = extract(sandbox, pdf_of("First page.", "Second page.", title="Valve manual", outline=True))
    assert extraction.text == "First page.\n\n\f\n\nSecond page."
    assert extraction.title == "Valve manual"
    found = [(heading.level, heading.title, heading.start) for heading in extraction.headings]
    assert found == [(1, "Chapter 1", 0), (2, "Details", 0), (1, "Chapter 2", 16), (2, "Details", 16)]


def test_a_pdf_that_only_forbids_changes_is_read(sandbox: Sandbox) -> None:
    assert extract(sandbox, pdf_of(SENTENCE, password="")).text == SENTENCE


def test_a_docx_keeps_headings_lists_and_tables(sandbox: Sandbox) -> None:
    extraction = extract(sandbox, docx_of(), uri="wrong-name.txt")
    assert extraction.text == (
        "# Mounting\n\nClose the four screws.\n\n- clean\n- dry\n\n"
        "| Screw | Nm |\n|---|---|\n| a\\|b | 9 |\n\n## Care\n\n\\# not a heading"
    )
    assert [heading.title for heading in extraction.headings] == ["Mounting", "Care"]
    assert extraction.title == "Valve manual"


def test_of_html_the_main_content_is_read_as_markdown(sandbox: Sandbox) -> None:
    page = (
        "<html><head><meta charset='iso-8859-1'><title> Valve\n guide </title>"
        "<script>x()</script></head><body>"
        "<nav><a href='/'>Home</a><a href='/shop'>Shop</a></nav><main><h1>Mounting</h1>"
        "<p>Close the four screws at 20 °C with nine newton metres each, crosswise.</p><h2>Care</h2>"
        "<p>Keep it clean and dry.</p></main><footer>Imprint</footer></body></html>"
    ).encode("iso-8859-1")
    extraction = extract(sandbox, page)
    assert extraction.text == (
        "# Mounting\n\nClose the four screws at 20 °C with nine newton metres each, crosswise.\n\n"
        "## Care\n\nKeep it clean and dry."
    )
    assert [heading.title for heading in extraction.headings] == ["Mounting", "Care"]
    assert extraction.title == "Valve guide"


@needs_tesseract
@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PDF"])
def test_pictures_of_text_are_read(sandbox: Sandbox, file_format: str) -> None:
    assert extract(sandbox, picture(SENTENCE, file_format)).text == SENTENCE
