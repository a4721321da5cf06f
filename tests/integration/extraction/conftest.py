"""A sandbox, and what is read in it."""

from collections.abc import Iterator
from typing import Any

import pytest
from groundline_extraction.documents import GivenDocument
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.texts import ExtractedText

LIMITS = ReaderLimits(max_pages=20, max_unpacked_bytes=4 * 1024**2, seconds=60)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as sandbox:
        yield sandbox


@pytest.fixture
def extract(sandbox: Sandbox) -> Any:
    def extract(content: bytes | str, uri: str = "", mime_type: str = "") -> ExtractedText:
        return DocumentExtractor(sandbox).extract(GivenDocument(content, uri=uri, mime_type=mime_type))

    return extract
