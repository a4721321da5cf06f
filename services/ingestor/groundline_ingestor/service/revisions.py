"""Revisions of documents: reading and comparing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

from groundline.v1 import document_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts import default_of
from groundline_runtime.context import Caller
from groundline_runtime.errors import FieldViolation, InvalidArgumentError, NotFoundError, OutOfRangeError
from groundline_runtime.paging import PageTokens, page_size
from groundline_runtime.turns import ClientTurns

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.documents.reading import PostgresDocuments
from groundline_ingestor.adapters.postgres.documents.revisions import PostgresRevisions
from groundline_ingestor.domain.documents import TextPart
from groundline_ingestor.domain.revisions import (
    MAX_LINES,
    TextComparison,
    compare_part,
    compare_texts,
    find_nearest,
    moved_part,
)
from groundline_ingestor.service.access import readable_document

_TEXT_CHARACTERS: Final[int] = default_of(pb.GetDocumentTextRequest, "max_characters")

MAX_SEARCHED: Final = 4_000_000
"""Maximum characters of a text that are held while a part of another is looked for."""

# Limits of CompareRevisions, as the contract says.
MAX_COMPARED: Final = 4_000_000
MAX_PART: Final = 100_000
MAX_STRETCHES: Final = 10_000

COMPARISONS: Final = 2
"""Maximum comparisons at a time; they take threads that other requests need as well."""


class RevisionService:
    """Use cases of revisions; every method acts for `caller`, and raises NotFoundError for a document that it
    may not read, and for a revision that is not kept (REVISION_NOT_FOUND)."""

    def __init__(
        self,
        collections: PostgresCollections,
        documents: PostgresDocuments,
        revisions: PostgresRevisions,
        page_tokens: PageTokens,
    ) -> None:
        self._collections = collections
        self._documents = documents
        self._revisions = revisions
        self._page_tokens = page_tokens
        self._comparing = ClientTurns(COMPARISONS)

    async def list(self, caller: Caller, request: pb.ListRevisionsRequest) -> pb.ListRevisionsResponse:
        """Return a page of a document's revisions. Raises InvalidArgumentError for a wrong token."""
        key = self._page_tokens.key_in(request, caller)
        await self._require_document(caller, request.collection_id, request.document_id)
        found = await self._revisions.list_readable(
            request.collection_id,
            request.document_id,
            caller.principals,
            after=key and _read(*key),
            limit=page_size(request) + 1,
        )
        revisions, token = self._page_tokens.page_of(request, caller, found, _page_key)
        return pb.ListRevisionsResponse(revisions=revisions, next_page_token=token)

    async def get(self, caller: Caller, request: pb.GetRevisionRequest) -> document_pb2.Revision:
        """Return a revision."""
        await self._require_document(caller, request.collection_id, request.document_id)
        return await self.find(caller, request.collection_id, request.document_id, request.revision)

    async def find(
        self, caller: Caller, collection_id: str, document_id: str, revision: str
    ) -> document_pb2.Revision:
        """Return a revision of a document that the caller may read, the one in use for ""."""
        found = await self._revisions.find(collection_id, document_id, caller.principals, revision)
        if found is None:
            raise NotFoundError("REVISION_NOT_FOUND", f"no revision {revision} of the document is kept")
        return found

    async def text(self, caller: Caller, request: pb.GetDocumentTextRequest) -> pb.GetDocumentTextResponse:
        """Return a part of the extracted text of a revision, or of the one in use."""
        await self._require_document(caller, request.collection_id, request.document_id)
        if request.revision:
            await self.find(caller, request.collection_id, request.document_id, request.revision)
        part = await self._revisions.text(
            request.collection_id,
            request.document_id,
            caller.principals,
            request.revision,
            start=request.start_offset,
            limit=request.max_characters or _TEXT_CHARACTERS,
        )
        start = min(request.start_offset, part.character_count)
        return pb.GetDocumentTextResponse(
            text=part.text,
            start_offset=start,
            end_offset=start + len(part.text),
            character_count=part.character_count,
        )

    async def compare(
        self, caller: Caller, request: pb.CompareRevisionsRequest
    ) -> pb.CompareRevisionsResponse:
        """Compare the text of a revision, or a part of it, with another's. Raises InvalidArgumentError,
        OutOfRangeError (DOCUMENT_TOO_LARGE)."""
        if 0 < request.end_offset <= request.start_offset:
            raise InvalidArgumentError([FieldViolation("end_offset", "must be behind start_offset")])
        await self._require_document(caller, request.collection_id, request.document_id)
        other = await self.find(caller, request.collection_id, request.document_id, request.other_revision)
        await self.find(caller, request.collection_id, request.document_id, request.revision)
        async with self._comparing.turn(caller.owner):
            compared = await self._compared(caller, request, other.revision)
        return _response(compared, other.revision)

    async def _compared(
        self, caller: Caller, request: pb.CompareRevisionsRequest, other_revision: str
    ) -> TextComparison:
        if request.end_offset:
            limit = min(request.end_offset - request.start_offset, MAX_PART)
            part = await self._text(caller, request, request.revision, request.start_offset, limit)
            if not part.text:
                raise InvalidArgumentError([FieldViolation("start_offset", "is behind the end of the text")])
            read = partial(self._text, caller, request, other_revision)
            return await found_part(part.text, request.start_offset, read)
        texts = [
            await self._text(caller, request, each, 0, MAX_COMPARED)
            for each in (request.revision, other_revision)
        ]
        if any(each.character_count > MAX_COMPARED or each.text.count("\n") > MAX_LINES for each in texts):
            raise OutOfRangeError(
                "DOCUMENT_TOO_LARGE",
                f"a text has more than {MAX_COMPARED:,} characters or {MAX_LINES:,} lines: compare a part",
            )
        return await asyncio.to_thread(compare_texts, *(each.text for each in texts))

    async def _require_document(self, caller: Caller, collection_id: str, document_id: str) -> None:
        await readable_document(self._collections, self._documents, caller, collection_id, document_id)

    async def _text(
        self,
        caller: Caller,
        request: pb.CompareRevisionsRequest,
        revision: str,
        start: int,
        limit: int,
    ) -> TextPart:
        return await self._revisions.text(
            request.collection_id,
            request.document_id,
            caller.principals,
            revision,
            start=start,
            limit=limit,
        )


async def found_part(
    part: str, start: int, read: Callable[[int, int], Awaitable[TextPart]], *, held: int = MAX_SEARCHED
) -> TextComparison:
    """Find a part of a text, which begins at `start`, in another text, of which `held` characters are read at
    a time: first around its place, and if nothing like it stands there, as it was in all the rest."""
    begin = max(0, start - held // 2)
    around = await read(begin, held)
    compared = await asyncio.to_thread(compare_part, part, start - begin, around.text)
    if compared.fate != document_pb2.TEXT_FATE_GONE:
        return replace(compared, start=begin + compared.start, end=begin + compared.end)
    size, best = around.character_count, None
    # They overlap, so that what is at the edge of one is within the next. The least distance comes first.
    others = range(0, size, held - len(part)) if len(around.text) < size else ()
    for distance, at in sorted((max(at - start, start - at - held, 0), at) for at in others):
        if best is not None and abs(best - start) <= distance:
            break
        other = await read(at, held)
        found = await asyncio.to_thread(find_nearest, part, start - at, other.text)
        if found is not None and (best is None or abs(at + found - start) < abs(best - start)):
            best = at + found
    return compared if best is None else moved_part(part, best)


def _response(compared: TextComparison, other_revision: str) -> pb.CompareRevisionsResponse:
    texts = [
        document_pb2.ComparedText(change=change, text=text)
        for change, text in islice(compared.stretches, MAX_STRETCHES)
    ]
    return pb.CompareRevisionsResponse(
        fate=compared.fate,
        other_revision=other_revision,
        start_offset=compared.start,
        end_offset=compared.end,
        texts=texts,
        is_cut=len(compared.stretches) > MAX_STRETCHES,
    )


def _page_key(revision: document_pb2.Revision) -> tuple[str, str]:
    """Return the fields of a revision that a page token holds."""
    replaced = "" if revision.is_current else revision.replace_time.ToJsonString()
    return replaced, revision.revision


def _read(replaced: str, revision: str) -> tuple[datetime | None, str]:
    return datetime.fromisoformat(replaced) if replaced else None, revision
