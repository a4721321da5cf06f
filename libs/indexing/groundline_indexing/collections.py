"""Properties of collections that chunks depend on."""

from dataclasses import dataclass
from typing import Final

from groundline.v1 import collection_pb2
from groundline_contracts import default_of
from groundline_embedding import Embedder, Embedders
from groundline_runtime.errors import FailedPreconditionError
from groundline_validation.rules import default_chunk_size

EVERYONE: Final = "*"
"""Principal that stands for every caller."""

_STRATEGY: Final = default_of(collection_pb2.ChunkingSettings, "strategy")
_UNIT: Final = default_of(collection_pb2.ChunkingSettings, "unit")
_OVERLAP: Final[int] = default_of(collection_pb2.ChunkingSettings, "chunk_overlap")
_PARENT_SIZE: Final[int] = default_of(collection_pb2.ChunkingSettings, "parent_size")
_MODE: Final = default_of(collection_pb2.ContextualizationSettings, "mode")


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A collection and the partition of its chunks. The settings embedding, lexical and access are complete,
    the others hold only given values."""

    message: collection_pb2.Collection
    partition_id: int

    @property
    def collection_id(self) -> str:
        return self.message.collection_id

    @property
    def settings(self) -> collection_pb2.CollectionSettings:
        return self.message.settings


def effective_chunking(settings: collection_pb2.CollectionSettings) -> collection_pb2.ChunkingSettings:
    """Return how documents are cut, with the contract's defaults."""
    chosen = settings.chunking
    strategy = chosen.strategy or _STRATEGY
    size = chosen.chunk_size if chosen.HasField("chunk_size") else default_chunk_size(strategy)
    # A small chunk_size alone must not clash with the default overlap.
    overlap = _OVERLAP if size > _OVERLAP * 2 else size // 10
    parent = chosen.parent_size if chosen.HasField("parent_size") else max(_PARENT_SIZE, size)
    return collection_pb2.ChunkingSettings(
        strategy=strategy,
        chunk_size=size,
        chunk_overlap=chosen.chunk_overlap if chosen.HasField("chunk_overlap") else overlap,
        unit=chosen.unit or _UNIT,
        parent_size=parent if strategy == collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD else None,
    )


def effective_mode(
    settings: collection_pb2.CollectionSettings,
) -> collection_pb2.ContextualizationMode.ValueType:
    """Return the contextualization mode, which is structural by default."""
    return settings.contextualization.mode or _MODE


def llm_contextualization(
    settings: collection_pb2.CollectionSettings,
) -> collection_pb2.ContextualizationSettings | None:
    """Return the prompt and model of contexts that a language model writes; None in the other modes."""
    is_llm = effective_mode(settings) == collection_pb2.CONTEXTUALIZATION_MODE_LLM
    return settings.contextualization if is_llm else None


def running_model(collection: StoredCollection, embedders: Embedders) -> Embedder:
    """Return the embedder of the collection's vectors. Raises FailedPreconditionError where it does not
    run."""
    embedding = collection.settings.embedding
    embedder = embedders.of(embedding.model, embedding.dimensions)
    if embedder is None:
        raise mismatch(
            f"the collection {collection.collection_id!r} was embedded with {embedding.model!r}", embedders
        )
    return embedder


def mismatch(what: str, embedders: Embedders) -> FailedPreconditionError:
    running = " and ".join(map(repr, embedders.models))
    what_runs = "model is" if len(embedders.models) == 1 else "models are"
    return FailedPreconditionError(
        "EMBEDDING_MODEL_MISMATCH", f"{what}, but the running embedding {what_runs} {running}"
    )
