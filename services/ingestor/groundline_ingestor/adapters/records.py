"""Failures and what was handed in as jsonb."""

import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from groundline_ingestor.crawling import CrawlRequest
from groundline_ingestor.domain import (
    DocumentInput,
    FileContent,
    IngestionFailure,
    IngestionState,
    SourceType,
    is_text,
)

__all__ = ["crawl_json", "failure_json", "input_json", "read_crawl", "read_failure", "read_input"]


def crawl_json(request: CrawlRequest) -> dict[str, Any]:
    """A crawl as it was asked for; whether private addresses are allowed is decided when it begins."""
    return {
        "startUrl": request.start_url,
        "maxPages": request.max_pages,
        "maxDepth": request.max_depth,
        "includePaths": list(request.include_paths),
        "excludePaths": list(request.exclude_paths),
        "delaySeconds": request.delay_seconds,
    }


def read_crawl(stored: Mapping[str, Any]) -> CrawlRequest:
    return CrawlRequest(
        start_url=stored["startUrl"],
        max_pages=stored["maxPages"],
        max_depth=stored["maxDepth"],
        include_paths=tuple(stored["includePaths"]),
        exclude_paths=tuple(stored["excludePaths"]),
        delay_seconds=stored["delaySeconds"],
    )


def failure_json(failure: IngestionFailure | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"stage": failure.stage, "reason": failure.reason, "message": failure.message}


def read_failure(stored: Mapping[str, Any] | None) -> IngestionFailure | None:
    if stored is None:
        return None
    return IngestionFailure(IngestionState(stored["stage"]), stored["reason"], stored["message"])


def input_json(given: DocumentInput) -> dict[str, Any]:
    """A document as handed in, without its content."""
    return {
        "kind": "text" if is_text(given) else "data",
        "uri": given.uri,
        "title": given.title,
        "mimeType": given.mime_type,
        "sourceType": given.source_type,
        "metadata": given.metadata,
        "allowedPrincipals": list(given.allowed_principals),
    }


def read_input(stored: Mapping[str, Any], content: bytes | BinaryIO) -> DocumentInput:
    """The document with its content again, in memory or in a file."""
    is_text = stored["kind"] == "text"
    given: str | bytes | FileContent
    if not isinstance(content, bytes):
        given = FileContent(content, content.seek(0, os.SEEK_END), is_text)
    else:
        given = content.decode() if is_text else content
    return DocumentInput(
        content=given,
        uri=stored["uri"],
        title=stored["title"],
        mime_type=stored["mimeType"],
        source_type=SourceType(stored["sourceType"]),
        metadata=stored["metadata"],
        allowed_principals=tuple(stored["allowedPrincipals"]),
    )
