"""PDF by pypdf; pages that hold only pictures by OCR where there is one."""

import io
from collections.abc import Iterator
from typing import Any

import pypdf
from pypdf.errors import FileNotDecryptedError, LimitReachedError, PyPdfError

from groundline_ingestor.adapters.extraction.readers import image
from groundline_ingestor.adapters.extraction.readers.common import Hints, Limits, Read, ReadError, clean

__all__ = ["read"]

_PAGE_BREAK = "\n\n"


def read(data: bytes, hints: Hints, limits: Limits) -> Read:
    """The pages' texts, and the outline as headings at the start of their pages.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT, TOO_MANY_PAGES or DOCUMENT_TOO_LARGE.
    """
    try:
        with pypdf.apply_configuration(zlib_maximum_output_length=limits.max_unpacked_bytes):
            return _read(data, limits)
    except FileNotDecryptedError:
        raise ReadError("ENCRYPTED_DOCUMENT", "the PDF needs a password") from None
    except LimitReachedError:
        raise ReadError("DOCUMENT_TOO_LARGE", "a part of the PDF unpacks to more than is taken") from None
    except (ReadError, MemoryError):
        raise
    except PyPdfError as error:
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound PDF: {_first_line(error)}") from None
    except Exception as error:
        # A broken file makes pypdf fail with whatever its values happen to lead to.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound PDF ({type(error).__name__})") from None


def _read(data: bytes, limits: Limits) -> Read:
    document = pypdf.PdfReader(io.BytesIO(data))
    # Many files are encrypted only to forbid changes; the empty password opens them.
    if document.is_encrypted and not document.decrypt(""):
        raise ReadError("ENCRYPTED_DOCUMENT", "the PDF needs a password")
    if len(document.pages) > limits.max_pages:
        raise ReadError(
            "TOO_MANY_PAGES", f"{len(document.pages)} pages; at most {limits.max_pages} are taken"
        )
    texts, starts, length = [], [], 0
    for page in document.pages:
        text = clean(_text_of(page, limits)).strip()
        texts.append(text)
        starts.append(length)
        length += len(text) + len(_PAGE_BREAK)
        if length > limits.max_unpacked_bytes:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {limits.max_unpacked_bytes} characters of text")
    return Read(
        _PAGE_BREAK.join(texts),
        title=clean(_title_of(document)),
        headings=_headings(document, starts),
    )


def _text_of(page: pypdf.PageObject, limits: Limits) -> str:
    text = page.extract_text()
    if text.strip() or not limits.ocr_data:
        return text
    pictures = (image.text_of(picture.image, limits) for picture in page.images if picture.image is not None)
    return "\n\n".join(filter(None, pictures))


def _title_of(document: pypdf.PdfReader) -> str:
    title = document.metadata.title if document.metadata else None
    return " ".join(title.split()) if title else ""


def _headings(document: pypdf.PdfReader, starts: list[int]) -> list[tuple[int, str, int]]:
    try:
        entries = list(_outline(document, document.outline, 1))
    except MemoryError:
        raise
    except Exception:  # the pages could be read; a broken outline is none
        return []
    # In the order of the text: what an entry encloses is decided by what comes next.
    return sorted(
        ((level, title, starts[page]) for level, title, page in entries), key=lambda entry: entry[2]
    )


def _outline(document: pypdf.PdfReader, entries: Any, level: int) -> Iterator[tuple[int, str, int]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _outline(document, entry, min(level + 1, 6))
        elif (page := document.get_destination_page_number(entry)) is not None and page >= 0:
            title = " ".join(clean(str(entry.title or "")).split())
            if title:
                yield level, title[:500], page


def _first_line(error: Exception) -> str:
    return clean((str(error) or type(error).__name__).splitlines()[0][:200])
