"""Erasures: listing, and certificates."""

from datetime import datetime
from importlib.metadata import version
from typing import Final

from groundline.v1 import evidence_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts.times import moment
from groundline_runtime.context import Caller
from groundline_runtime.errors import NotFoundError
from groundline_runtime.paging import PageTokens, page_size

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.documents.erasures import PostgresErasures
from groundline_ingestor.domain.collections import is_administrable
from groundline_ingestor.service.access import administrable_collection

FORMAT: Final = "groundline/erasure/1"


class ErasureService:
    """Use cases of erasures: who asked for one sees it, and who administers its collection."""

    def __init__(
        self, collections: PostgresCollections, erasures: PostgresErasures, page_tokens: PageTokens
    ) -> None:
        self._collections = collections
        self._erasures = erasures
        self._page_tokens = page_tokens

    async def list(self, caller: Caller, request: pb.ListErasuresRequest) -> pb.ListErasuresResponse:
        """Return a page of erasures. Raises InvalidArgumentError for a wrong token, NotFoundError and
        PermissionDeniedError for a collection."""
        key = self._page_tokens.key_in(request, caller)
        if request.collection_id:
            await administrable_collection(self._collections, caller, request.collection_id)
        found = await self._erasures.list_erasures(
            request.collection_id, caller.owner, before=key and _read(*key), limit=page_size(request) + 1
        )
        erasures, token = self._page_tokens.page_of(request, caller, found, _page_key)
        return pb.ListErasuresResponse(erasures=erasures, next_page_token=token)

    async def certificate(self, caller: Caller, erasure_id: str) -> bytes:
        """Return a signed certificate as canonical JSON. Raises NotFoundError (ERASURE_NOT_FOUND)."""
        found = await self._erasures.find(erasure_id)
        if found is None or not await self._may_see(caller, *found):
            raise NotFoundError("ERASURE_NOT_FOUND", f"no erasure {erasure_id}")
        return await self._erasures.sign(
            evidence_pb2.ErasureCertificate(
                format=FORMAT, version=version("groundline-ingestor"), erasure=found[0]
            )
        )

    async def _may_see(self, caller: Caller, erasure: evidence_pb2.Erasure, owner: str) -> bool:
        if owner == caller.owner:
            return True
        collection = await self._collections.find(erasure.collection_id)
        return collection is not None and is_administrable(collection.message, caller.principals)


def _page_key(erasure: evidence_pb2.Erasure) -> tuple[str, str]:
    """Return the fields of an erasure that a page token holds."""
    return moment(erasure.erase_time).isoformat(), erasure.erasure_id


def _read(erase_time: str, erasure_id: str) -> tuple[datetime, str]:
    return datetime.fromisoformat(erase_time), erasure_id
