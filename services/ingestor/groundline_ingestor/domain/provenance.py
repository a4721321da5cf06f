"""Who stores a revision of a document, and what makes its text and its chunks."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from groundline.v1 import collection_pb2, document_pb2
from groundline_extraction.formats import reader_of
from groundline_indexing.collections import effective_chunking
from groundline_indexing.hashes import PIPELINE_VERSION

from groundline_ingestor.domain.work import ItemClaim, NewVersion

_READERS_VERSION: Final = version("groundline-extraction")


def provenance_of(settings: collection_pb2.CollectionSettings, new: NewVersion) -> document_pb2.Provenance:
    """Return the provenance of a version, made by a collection's settings."""
    provenance = changed_by(new.principals, new.claim)
    reader = None if new.is_restored else reader_of(new.version.mime_type)
    provenance.reader = f"{reader} {_READERS_VERSION}" if reader else ""
    provenance.chunking.CopyFrom(effective_chunking(settings))
    provenance.pipeline_version = PIPELINE_VERSION
    return provenance


def changed_by(principals: Sequence[str], claim: ItemClaim | None) -> document_pb2.Provenance:
    """Return what a change of metadata or principals says of who made it."""
    return document_pb2.Provenance(stored_by=next(iter(principals), ""), job_id=claim.job_id if claim else "")
