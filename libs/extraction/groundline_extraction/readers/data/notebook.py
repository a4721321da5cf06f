"""Jupyter notebooks: their Markdown, their code, and its output."""

import json
from typing import Any, Final

from groundline_extraction.encoding import decoded
from groundline_extraction.headings import read_headings
from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError

MAX_OUTPUT_CHARACTERS: Final = 10_000
"""Maximum characters of one cell's output; a longer one is data as a rule."""


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read text, code and printed output. Raises ReadError with INVALID_JSON, CORRUPT_DOCUMENT or
    DOCUMENT_TOO_LARGE."""
    try:
        notebook = json.loads(decoded(data, charset=hints.charset or "utf-8"))
    except (ValueError, RecursionError) as error:
        raise ReadError("INVALID_JSON", f"not JSON: {str(error)[:200]}") from None
    try:
        return _read(notebook, limits)
    except (KeyError, TypeError, AttributeError):
        raise ReadError("CORRUPT_DOCUMENT", "not a notebook of versions 2 to 4") from None


def _read(notebook: dict[str, Any], limits: ReaderLimits) -> Read:
    builder = MarkdownBuilder(limits)
    metadata = notebook.get("metadata") or {}
    language = (metadata.get("language_info") or {}).get("name") or "python"
    for cell in _cells(notebook):
        source = _joined(cell.get("source") or cell.get("input") or "")
        match cell["cell_type"]:
            case "heading":
                builder.heading(int(cell.get("level") or 1), source)
            case "markdown":
                builder.include(Read(source, markdown=True, headings=read_headings(source)))
            case "code":
                builder.code(source, language)
                for output in cell.get("outputs") or ():
                    builder.code(_printed(output)[:MAX_OUTPUT_CHARACTERS])
            case _:
                builder.paragraph(source)
    return builder.read(title=str(metadata.get("title") or ""))


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of all worksheets, which notebooks before version 4 have."""
    if "cells" in notebook:
        return list(notebook["cells"])
    return [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]


def _printed(output: dict[str, Any]) -> str:
    if "text" in output:
        return _joined(output["text"])
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}"
    return _joined((output.get("data") or {}).get("text/plain", ""))


def _joined(lines: str | list[str]) -> str:
    """Return lines as one text; those of version 2 have no line ends."""
    if isinstance(lines, str):
        return lines
    return ("" if any(line.endswith("\n") for line in lines) else "\n").join(lines)
