"""A corpus written by SQL, as the ingestor writes it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg
from groundline_lexical import TERMS, LexicalIndex, lexical_text, stored_terms
from groundline_signatures import signature
from groundline_tests.embedding import FakeEmbedder
from pgvector import SparseVector

_COLUMNS: Final = (
    "partition_id", "collection_id", "document_id", "chunk_index", "original_text", "context_annotation",
    "lexical_text", "lexical_terms", "embedding", "start_offset", "end_offset", "content_hash", "source_type",
    "metadata", "allowed_principals", "update_time", "signature",
)  # fmt: skip


class Corpus:
    """Writer of collections as the ingestor stores them: a partition each, with its HNSW and BM25 index."""

    def __init__(self, connection: "asyncpg.Connection[Any]", lexical: LexicalIndex) -> None:
        self.connection = connection
        self.lexical = lexical
        self.embedder = FakeEmbedder()
        self._next_uri = 0

    async def collection(
        self,
        collection_id: str,
        texts: Sequence[str] = (),
        *,
        readers: Sequence[str] = (),
        writers: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
        language: str = "english",
        lexical_backend: str | None = None,
        is_shared: bool = False,
    ) -> list[int]:
        """Create a collection, one chunk and document per text; returns the chunk ids.

        A shared one goes to the partition that all of its model and language share.
        """
        async with self.connection.transaction():
            partition_id = await self.connection.fetchval(
                """
                INSERT INTO chunk_partitions
                    (collection_id, embedding_model, dimensions, language, lexical_backend)
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING partition_id
                """,
                None if is_shared else collection_id,
                model or self.embedder.model,
                self.embedder.dimensions,
                language,
                lexical_backend or self.lexical.name,
            )
            is_new = partition_id is not None
            if not is_new:
                partition_id = await self.connection.fetchval(
                    """
                    SELECT partition_id FROM chunk_partitions
                    WHERE collection_id IS NULL AND embedding_model = $1 AND language = $2
                    """,
                    model or self.embedder.model,
                    language,
                )
            await self.connection.execute(
                """
                INSERT INTO collections (collection_id, name, settings, readers, writers, partition_id)
                VALUES ($1, $1, $2, $3, $4, $5)
                """,
                collection_id,
                json.dumps(settings or {}),
                readers,
                writers,
                partition_id,
            )
            if is_new:
                await self._create_table(f"chunks_p{partition_id}", partition_id)
                await self.lexical.create_index(
                    self.connection, f"chunks_p{partition_id}", language, is_shared=is_shared
                )
        return await self.add(collection_id, texts)

    async def _create_table(self, table: str, partition_id: int) -> None:
        await self.connection.execute(
            f"""
            CREATE TABLE {table} PARTITION OF chunks FOR VALUES IN ({partition_id});
            CREATE INDEX {table}_hnsw ON {table}
                USING hnsw ((embedding::halfvec({self.embedder.dimensions})) halfvec_cosine_ops);
            CREATE INDEX {table}_collection ON {table} (collection_id)
            """
        )

    async def add(
        self,
        collection_id: str,
        texts: Sequence[str],
        *,
        title: str = "Notes",
        metadata: Mapping[str, Any] | None = None,
        allowed_principals: Sequence[str] = (),
    ) -> list[int]:
        """Add one document of one chunk for each text."""
        partition_id = await self.partition(collection_id)
        language = await self.connection.fetchval(
            "SELECT language FROM chunk_partitions WHERE partition_id = $1", partition_id
        )
        vectors = await self.embedder.embed_documents(texts)
        now = await self.connection.fetchval("SELECT now()")
        documents, chunks = [], []
        for text, vector in zip(texts, vectors, strict=True):
            self._next_uri += 1
            document_id, uri = uuid4(), f"notes/{self._next_uri}.md"
            digest = hashlib.sha256(text.encode()).digest()
            described = json.dumps(metadata or {})
            principals = list(allowed_principals)
            words = lexical_text(text, context="", title=title, uri=uri)
            documents.append(
                (document_id, collection_id, uri, "file", title, "text/markdown", digest, digest, len(text),
                 described, principals, "ready", 1)
            )  # fmt: skip
            chunks.append(
                (partition_id, collection_id, document_id, 0, text, "",
                 words, SparseVector(stored_terms(words, language), TERMS), vector, 0, len(text), digest,
                 "file", described, principals, now, signature(text))
            )  # fmt: skip
        async with self.connection.transaction():
            await self.connection.copy_records_to_table(
                "documents",
                records=documents,
                columns=(
                    "document_id", "collection_id", "uri", "source_type", "title", "mime_type",
                    "content_hash", "ingestion_hash", "size_bytes", "metadata",
                    "allowed_principals", "state", "chunk_count",
                ),
            )  # fmt: skip
            await self.connection.copy_records_to_table("chunks", records=chunks, columns=_COLUMNS)
        return await self.ids([document[0] for document in documents])

    async def document(self, collection_id: str, pieces: Sequence[tuple[str, int]]) -> None:
        """Add one document of several chunks: their texts and where they start."""
        [first, *others] = await self.add(collection_id, [text for text, _ in pieces])
        document_id = await self.connection.fetchval(
            "SELECT document_id FROM chunks WHERE chunk_id = $1", first
        )
        for index, (chunk_id, (text, start)) in enumerate(zip([first, *others], pieces, strict=True)):
            await self.connection.execute(
                """
                UPDATE chunks SET document_id = $2, chunk_index = $3, start_offset = $4, end_offset = $5
                WHERE chunk_id = $1
                """,
                chunk_id, document_id, index, start, start + len(text),
            )  # fmt: skip

    async def ids(self, document_ids: Sequence[UUID]) -> list[int]:
        rows = await self.connection.fetch("SELECT document_id, chunk_id FROM chunks ORDER BY chunk_id")
        known = {row["document_id"]: row["chunk_id"] for row in rows}
        return [known[document_id] for document_id in document_ids]

    async def partition(self, collection_id: str) -> int:
        found = await self.connection.fetchval(
            "SELECT partition_id FROM collections WHERE collection_id = $1", collection_id
        )
        assert isinstance(found, int)
        return found
