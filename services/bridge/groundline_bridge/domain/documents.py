"""URIs of documents as resources."""

import re
from typing import Final

__all__ = ["address_of", "parsed_address"]

_ADDRESS: Final = re.compile(r"groundline://([a-z0-9][a-z0-9_-]*)/([0-9a-f-]{36})")


def address_of(collection_id: str, document_id: str) -> str:
    """Return the URI of a document as a resource."""
    return f"groundline://{collection_id}/{document_id}"


def parsed_address(uri: str) -> tuple[str, str] | None:
    """Return collection and document of a resource's URI; None for another URI."""
    found = _ADDRESS.fullmatch(uri)
    return (found[1], found[2]) if found else None
