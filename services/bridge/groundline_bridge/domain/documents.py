"""Addresses of documents: as resources, and for people."""

import re
from typing import Final

from groundline.v1 import chat_pb2, passage_pb2

_ADDRESS: Final = re.compile(r"groundline://([a-z0-9][a-z0-9_-]*)/([0-9a-f-]{36})")


def address_of(collection_id: str, document_id: str) -> str:
    """Return the URI of a document as a resource."""
    return f"groundline://{collection_id}/{document_id}"


def link_of(source: chat_pb2.Source | passage_pb2.Chunk, gateway: str) -> str:
    """Return the address that opens a source or passage: its document's own on the web, or else the gateway's
    page at the passage within the document's text."""
    if source.uri.lower().startswith(("http://", "https://")):
        return source.uri
    passage = f"{source.start_offset}-{source.end_offset}"
    return f"{gateway}/#source={source.collection_id}/{source.document_id}/{passage}"


def parsed_address(uri: str) -> tuple[str, str] | None:
    """Return collection and document of a resource's URI; None for another URI."""
    found = _ADDRESS.fullmatch(uri)
    return (found[1], found[2]) if found else None
