"""Stored forms, in text and jsonb, of failures, documents as handed in, and sources."""

import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import asyncpg
from google.protobuf import json_format
from groundline.v1 import document_pb2, error_pb2, passage_pb2, source_pb2
from groundline_contracts.times import timestamp
from groundline_database.codecs import enum_text, read_enum
from groundline_extraction.documents import FileContent, GivenDocument, is_text
from groundline_runtime.reasons import reason_value

from groundline_ingestor.domain.sources import StoredSource


def failure_json(failure: document_pb2.IngestionFailure | None) -> dict[str, Any] | None:
    """Return a failure as it is stored; None for None."""
    if failure is None:
        return None
    stage = enum_text(document_pb2.IngestionState, failure.stage)
    return {"stage": stage, "reason": error_pb2.ErrorReason.Name(failure.reason), "message": failure.message}


def read_failure(stored: Mapping[str, Any] | None) -> document_pb2.IngestionFailure | None:
    if stored is None:
        return None
    return document_pb2.IngestionFailure(
        stage=read_enum(document_pb2.IngestionState, stored["stage"]),
        reason=reason_value(stored["reason"]),
        message=stored["message"],
    )


def input_json(given: GivenDocument, revision: str = "") -> dict[str, Any]:
    """Return a document as handed in, without its content; `revision` of it is to be stored again."""
    return {
        **({"revision": revision} if revision else {}),
        "kind": "text" if is_text(given) else "data",
        "uri": given.uri,
        "title": given.title,
        "mimeType": given.mime_type,
        "sourceType": enum_text(passage_pb2.SourceType, given.source_type),
        "metadata": given.metadata,
        "allowedPrincipals": list(given.allowed_principals),
        "contentHash": given.content_hash.hex(),
        "containerUri": given.container_uri,
    }


def read_input(stored: Mapping[str, Any], content: bytes | BinaryIO) -> GivenDocument:
    """Return the document with its content, in memory or in a file."""
    is_text = stored["kind"] == "text"
    given: str | bytes | FileContent
    if not isinstance(content, bytes):
        given = FileContent(content, content.seek(0, os.SEEK_END), is_text)
    else:
        given = content.decode() if is_text else content
    return GivenDocument(
        content=given,
        uri=stored["uri"],
        title=stored["title"],
        mime_type=stored["mimeType"],
        source_type=read_enum(passage_pb2.SourceType, stored["sourceType"]),
        metadata=stored["metadata"],
        allowed_principals=tuple(stored["allowedPrincipals"]),
        content_hash=bytes.fromhex(stored["contentHash"]),
        container_uri=stored.get("containerUri", ""),
    )


def read_source(row: asyncpg.Record) -> StoredSource:
    """Return a source out of a row of its table, with its counts and times."""
    message = source_pb2.DocumentSource()
    # A field that a newer release stored must not make the source unreadable.
    json_format.ParseDict(row["definition"], message, ignore_unknown_fields=True)
    message.source_id = str(row["source_id"])
    message.collection_id = row["collection_id"]
    message.document_count = row["document_count"]
    message.MergeFrom(
        source_pb2.DocumentSource(
            create_time=timestamp(row["create_time"]), next_run_time=timestamp(row["next_run_time"])
        )
    )
    return StoredSource(message, tuple(row["principals"]), row["cursor"], str(row["last_job_id"] or ""))
