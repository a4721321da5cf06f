"""The table of formats says what is read, and the command hands in what is read."""

import re
from pathlib import Path
from typing import Final

import pytest
from groundline_cli.files import HANDED_IN_TYPES
from groundline_extraction.formats import READ_TYPES, clean_type, reader_of

README: Final = Path(__file__).parents[3] / "libs/extraction/README.md"
NAMES: Final = {
    "application/epub+zip": "EPUB",
    "application/gzip": "gzip",
    "application/json": "JSON",
    "application/msword": "DOC",
    "application/pdf": "PDF",
    "application/rtf": "RTF",
    "application/vnd.ms-excel": "XLS",
    "application/vnd.ms-excel.sheet.binary.macroenabled.12": "XLSB",
    "application/vnd.ms-outlook": "MSG",
    "application/vnd.ms-powerpoint": "PPT",
    "application/vnd.oasis.opendocument.presentation": "ODP",
    "application/vnd.oasis.opendocument.spreadsheet": "ODS",
    "application/vnd.oasis.opendocument.text": "ODT",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PPTX",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX",
    "application/x-bzip2": "bzip2",
    "application/x-ipynb+json": "Jupyter notebooks",
    "application/x-ndjson": "JSON Lines",
    "application/x-tar": "TAR",
    "application/x-xz": "xz",
    "application/xml": "XML",
    "application/zip": "ZIP",
    "image/bmp": "BMP",
    "image/gif": "GIF",
    "image/jpeg": "JPEG",
    "image/png": "PNG",
    "image/svg+xml": "SVG",
    "image/tiff": "TIFF",
    "image/webp": "WebP",
    "message/rfc822": "EML",
    "multipart/related": "MHTML",
    "text/csv": "CSV",
    "text/html": "HTML",
    "text/x-rst": "reStructuredText",
    "text/tab-separated-values": "TSV",
}


def test_the_table_of_formats_names_each_that_has_a_reader() -> None:
    assert set(NAMES) == set(READ_TYPES)
    section = README.read_text().partition("## What is read\n")[2].partition("\n## ")[0]
    first_cells = " ".join(re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE))
    named = set(re.findall(r"\w+", first_cells))
    missing = [name for name in NAMES.values() if not set(name.split()) <= named]
    assert missing == []


@pytest.mark.parametrize("mime_type", sorted(HANDED_IN_TYPES))
def test_what_the_command_hands_in_as_a_file_has_a_reader(mime_type: str) -> None:
    assert reader_of(clean_type(mime_type)[0]) is not None
