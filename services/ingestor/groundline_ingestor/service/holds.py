"""Legal holds: setting, releasing and listing."""

import structlog
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_runtime.context import Caller
from groundline_runtime.paging import PageTokens, page_size

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.documents.holds import PostgresHolds, page_key
from groundline_ingestor.service.access import administrable_collection

_log = structlog.get_logger(__name__)


class HoldService:
    """Use cases of legal holds, for who may administer their collection.

    Every method raises NotFoundError and PermissionDeniedError.
    """

    def __init__(
        self, collections: PostgresCollections, holds: PostgresHolds, page_tokens: PageTokens
    ) -> None:
        self._collections = collections
        self._holds = holds
        self._page_tokens = page_tokens

    async def change(self, caller: Caller, request: pb.SetLegalHoldRequest) -> pb.SetLegalHoldResponse:
        """Set, change or release holds."""
        collection = await administrable_collection(self._collections, caller, request.collection_id)
        reason = request.reason.strip()
        count = await self._holds.change(collection, request.document_ids, request.thread_ids, reason)
        _log.info(
            "legal_hold_changed",
            collection_id=request.collection_id,
            documents=len(request.document_ids),
            threads=len(request.thread_ids),
            is_released=not reason,
        )
        return pb.SetLegalHoldResponse(changed_count=count)

    async def list(self, caller: Caller, request: pb.ListLegalHoldsRequest) -> pb.ListLegalHoldsResponse:
        """Return a page of holds. Raises InvalidArgumentError for a wrong token."""
        [after] = self._page_tokens.key_in(request, caller) or (None,)
        await administrable_collection(self._collections, caller, request.collection_id)
        found = await self._holds.list_holds(request.collection_id, after=after, limit=page_size(request) + 1)
        holds, token = self._page_tokens.page_of(request, caller, found, lambda hold: (page_key(hold),))
        return pb.ListLegalHoldsResponse(holds=holds, next_page_token=token)
