"""Contexts by a language model: cached, several chunks a call, at the pace that the generator allows."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from groundline.v1 import chat_pb2, collection_pb2, document_pb2
from groundline_extraction.documents import IngestionError
from groundline_indexing.collections import StoredCollection, llm_contextualization
from groundline_indexing.hashes import content_hash
from groundline_indexing.preparation import Prepared, shown_uri
from groundline_indexing.texts import PreparedChunk, table_heads_at
from groundline_lexical import lexical_text
from groundline_runtime.charges import usage_of
from groundline_runtime.errors import FailedPreconditionError, GroundlineError

from groundline_ingestor.service.worker.generator.asking import GeneratorCalls

CHUNKS_PER_CALL: Final = 20
MODEL_CALL_CHUNKS: Final = 10
"""Chunks in one call of the model, as the generator makes them; for estimates."""
CHARACTERS_PER_CALL: Final = 60_000

DOCUMENT_CHARACTERS: Final = 400_000
"""Maximum characters of text sent along, some 100,000 tokens; of a longer document the part around the chunks
is sent."""

CONTEXT_TOKENS: Final = 100
"""Maximum tokens that the prompt asks for, for estimates."""


@dataclass(frozen=True, slots=True)
class WrittenContexts:
    """Contexts of a call, one for each chunk, and their usage."""

    contexts: Sequence[str]
    usage: chat_pb2.Usage


class ContextWriter(Protocol):
    """Writer of texts that place chunks in their document, by a language model."""

    async def version(self, *, prompt: str, model: str) -> str:
        """Return a name of the prompt and the model that `write` uses for these; it changes when they do.

        Raises as `write` does.
        """

    async def write(
        self, *, title: str, document_text: str, chunk_texts: Sequence[str], prompt: str, model: str
    ) -> WrittenContexts:
        """Write contexts in the order of the chunks; `prompt` and `model` "" for the generator's own.

        Raises GroundlineError, with retry_after_seconds if the provider says when to come back.
        """


class ContextCache(Protocol):
    """Cache of contexts. Any method raises UnavailableError while the store is down."""

    async def get(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        """Return the known contexts."""

    async def put(self, contexts: Mapping[bytes, str]) -> None:
        """Keep contexts; known ones stay as they are."""

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        """Forget at most `limit` of those older than that, and return their number."""


class Payer(Protocol):
    """Payer of the calls for a document."""

    async def require_budget(self) -> None:
        """Raise IngestionError (QUOTA_EXHAUSTED) if there is no money for a further call."""

    async def spend(self, usage: chat_pb2.Usage) -> None:
        """Take note of a call: as soon as its contexts are kept, or as it has failed."""


@dataclass(frozen=True, slots=True)
class _Call:
    document_text: str
    positions: Sequence[int]


class Contextualization:
    """Contexts of chunks in the llm mode; those of other modes pass unchanged."""

    def __init__(
        self,
        writer: ContextWriter | None,
        cache: ContextCache,
        count_tokens: Callable[[Sequence[str]], Sequence[int]],
        calls: GeneratorCalls,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._count_tokens = count_tokens
        self._calls = calls

    def require(self, collection: StoredCollection) -> None:
        """Raise FailedPreconditionError when the collection's mode needs a generator and none is
        configured."""
        if self._writer is None and self.is_asked_for(collection):
            raise FailedPreconditionError(
                "GENERATOR_NOT_CONFIGURED",
                f"collection {collection.collection_id} has its contexts written by a language model, but "
                "this ingestor has no generator_target",
            )

    def is_asked_for(self, collection: StoredCollection) -> bool:
        """Tell whether a language model writes the collection's contexts."""
        return llm_contextualization(collection.settings) is not None

    async def contextualize(
        self, prepared: Prepared, collection: StoredCollection, payer: Payer
    ) -> Sequence[PreparedChunk]:
        """Return the chunks with contexts from the cache, else from the generator; written ones stay in the
        cache should a later call fail. Raises GroundlineError, IngestionError."""
        chosen = llm_contextualization(collection.settings)
        if chosen is None or not prepared.chunks:
            return prepared.chunks
        self.require(collection)
        keys = await self._keys(prepared, chosen)
        known = dict(await self._cache.get(keys))
        missing = [position for position, key in enumerate(keys) if key not in known]
        # One after the other: the first call fills the provider's cache with the document for the others.
        for call in _calls(prepared, missing):
            await payer.require_budget()
            written = await self._write(prepared, call, chosen, payer)
            found = {
                keys[position]: context
                for position, context in zip(call.positions, written.contexts, strict=True)
            }
            await self._cache.put(found)
            await payer.spend(written.usage)
            known |= found
        starts = [chunk.section.own_start - prepared.start.offset for chunk in prepared.chunks]
        heads = table_heads_at(prepared.extraction.text, starts, prepared.start.table_head)
        return [
            _with_context(chunk, "\n".join(filter(None, (known[key], head))), prepared)
            for chunk, key, head in zip(prepared.chunks, keys, heads, strict=True)
        ]

    async def estimate(self, prepared: Prepared, collection: StoredCollection) -> chat_pb2.Usage:
        """Estimate the tokens of `contextualize`, by the embedding model's tokenizer: for every call of the
        model the document and its chunks, of which the document is cached from the second call on."""
        chosen = llm_contextualization(collection.settings)
        if chosen is None or not prepared.chunks:
            return chat_pb2.Usage()
        known = await self._cache.get(keys := await self._keys(prepared, chosen))
        missing = [position for position, key in enumerate(keys) if key not in known]
        texts = [
            call.document_text
            for call in _calls(prepared, missing)
            for _ in range(0, len(call.positions), MODEL_CALL_CHUNKS)
        ]
        chunk_texts = [prepared.chunks[position].section.text for position in missing]
        counts = await asyncio.to_thread(self._count_tokens, [*texts, *chunk_texts])
        documents, chunks = counts[: len(texts)], counts[len(texts) :]
        cached = sum(
            count
            for count, text, before in zip(documents[1:], texts[1:], texts, strict=False)
            if text == before
        )
        return chat_pb2.Usage(
            prompt_tokens=sum(documents) + sum(chunks),
            cached_tokens=cached,
            output_tokens=CONTEXT_TOKENS * len(missing),
        )

    async def _keys(
        self, prepared: Prepared, chosen: collection_pb2.ContextualizationSettings
    ) -> list[bytes]:
        """Return the cache keys of the chunks' contexts, by the chunk, the prompt and model in use, and the
        document: all of it, or if contexts are kept the text around the chunk."""
        writer = self._writer
        assert writer is not None, "require() was called"
        version = await self._calls.patiently(
            lambda: writer.version(prompt=chosen.prompt, model=chosen.model)
        )

        def keys() -> list[bytes]:
            hashes = [content_hash(chunk.section.text).hex() for chunk in prepared.chunks]
            if chosen.keep_unchanged:
                own = [prepared.version.title, prepared.version.uri]
                surroundings = [
                    content_hash(json.dumps([*own, chunk.context, before, after])).hex()
                    for chunk, before, after in zip(
                        prepared.chunks, ["", *hashes], [*hashes[1:], ""], strict=False
                    )
                ]
            else:
                whole = content_hash(json.dumps([prepared.version.title, prepared.extraction.text])).hex()
                surroundings = [whole] * len(hashes)
            return [
                hashlib.sha256(json.dumps([around, chunk, version]).encode()).digest()
                for around, chunk in zip(surroundings, hashes, strict=True)
            ]

        return await asyncio.to_thread(keys)

    async def _write(
        self,
        prepared: Prepared,
        call: _Call,
        chosen: collection_pb2.ContextualizationSettings,
        payer: Payer,
    ) -> WrittenContexts:
        writer = self._writer
        assert writer is not None, "require() was called"

        async def attempt() -> WrittenContexts:
            try:
                return await writer.write(
                    title=prepared.version.title,
                    document_text=call.document_text,
                    chunk_texts=[prepared.chunks[position].section.text for position in call.positions],
                    prompt=chosen.prompt,
                    model=chosen.model,
                )
            except GroundlineError as error:
                if (paid := usage_of(error)) != chat_pb2.Usage():
                    await payer.spend(paid)
                raise

        written = await self._calls.patiently(attempt)
        if len(written.contexts) != len(call.positions):
            await payer.spend(written.usage)
            raise IngestionError(
                document_pb2.INGESTION_STATE_CONTEXTUALIZING,
                "CONTEXTS_INCOMPLETE",
                f"the generator wrote {len(written.contexts)} contexts for {len(call.positions)} chunks",
            )
        return written


def _calls(prepared: Prepared, positions: Sequence[int]) -> Iterator[_Call]:
    """Yield the chunks at these indices, neighbours together, each group with the text around it."""
    group: list[int] = []
    window = _window(prepared, positions[0]) if positions else (0, 0)
    length = 0
    for position in positions:
        size = len(prepared.chunks[position].section.text)
        if group and (
            len(group) == CHUNKS_PER_CALL
            or length + size > CHARACTERS_PER_CALL
            or _window(prepared, position) != window
        ):
            yield _Call(prepared.extraction.text[slice(*window)], group)
            group, length, window = [], 0, _window(prepared, position)
        group.append(position)
        length += size
    if group:
        yield _Call(prepared.extraction.text[slice(*window)], group)


def _window(prepared: Prepared, position: int) -> tuple[int, int]:
    """Return the whole text, or of a long one the segment that holds the chunk; the same for its neighbours,
    so that a provider can cache it."""
    if len(prepared.extraction.text) <= DOCUMENT_CHARACTERS:
        return 0, len(prepared.extraction.text)
    half = DOCUMENT_CHARACTERS // 2
    begin = (prepared.chunks[position].section.start - prepared.start.offset) // half * half
    return begin, begin + DOCUMENT_CHARACTERS


def _with_context(chunk: PreparedChunk, context: str, prepared: Prepared) -> PreparedChunk:
    lexical = lexical_text(
        chunk.section.text,
        context=context,
        title=prepared.version.title,
        uri=shown_uri(prepared.version.uri),
    )
    return replace(chunk, context=context, lexical_text=lexical)
