"""A document's text, put together from its chunks, and the addresses of documents."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from groundline.v1 import passage_pb2

__all__ = ["AssembledText", "address_of", "parsed_address", "text_of"]

GAP = "\n\n[…]\n\n"
_ADDRESS = re.compile(r"groundline://([a-z0-9][a-z0-9_-]*)/([0-9a-f-]{36})")


@dataclass(frozen=True)
class AssembledText:
    """What could be read of a document."""

    text: str
    """In document order; `GAP` stands for what is missing."""
    is_complete: bool


def text_of(chunks: Iterable[passage_pb2.Chunk], *, chunk_count: int, max_characters: int) -> AssembledText:
    """Join chunks, in any order, of which there are `chunk_count`; what they share is there once."""
    ordered = sorted(chunks, key=lambda chunk: chunk.chunk_index)
    pieces: list[str] = []
    previous: passage_pb2.Chunk | None = None
    for chunk in ordered:
        text = chunk.text
        if previous is None:
            pieces.append(GAP.lstrip() if chunk.chunk_index else "")
        elif chunk.chunk_index != previous.chunk_index + 1:
            pieces.append(GAP)
        elif chunk.start_offset < previous.end_offset:
            text = text[previous.end_offset - chunk.start_offset :]
        else:
            pieces.append("\n\n")
        pieces.append(text)
        previous = chunk
    whole = "".join(pieces)
    is_complete = len(ordered) == chunk_count and len(whole) <= max_characters
    return AssembledText(whole[:max_characters], is_complete)


def address_of(collection_id: str, document_id: str) -> str:
    """The URI of a document as a resource."""
    return f"groundline://{collection_id}/{document_id}"


def parsed_address(uri: str) -> tuple[str, str] | None:
    """Collection and document of a resource's URI; None for another URI."""
    found = _ADDRESS.fullmatch(uri)
    return (found[1], found[2]) if found else None
