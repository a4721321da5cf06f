"""Classes of Weaviate: their definition, and chunks as their objects."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct

from groundline_weaviate import wire_pb2 as wire
from groundline_weaviate.chunks import IndexedChunk, microseconds, object_id

_EXACT_OBJECTS: Final = 15_000
"""Where a filter leaves fewer of a class of one shard, each is compared, and HNSW is left. The server's own
40,000 of a shard made a search of all of 100,000 chunks take 240 ms in place of 40."""

_EXACT_SHARD_OBJECTS: Final = 10_000
"""The same of one of several shards. To compare 6,700 of each of three (2 % of a million) took nodes 23 ms
of processor time, and HNSW, which found .93, 45; 33,000 of each took 68, and HNSW, which found .996, 34."""


QUANTIZATION: Final = {"enabled": True, "bits": 8}
"""Rotational quantization (RQ), a byte for each dimension. The nearest are compared again by their vectors,
which the nodes keep on disk."""


def class_definition(name: str, shards: int, copies: int, *, is_quantized: bool = False) -> dict[str, object]:
    """Return what creates a class of `shards` shards, each on `copies` nodes."""
    return {
        "class": name,
        "vectorizer": "none",
        "vectorIndexType": "hnsw",
        "vectorIndexConfig": {
            "distance": "cosine",
            # Collections choose, not the server.
            "skipDefaultQuantization": True,
            **({"rq": QUANTIZATION} if is_quantized else {}),
            # Every search has a filter, if only that on its partition.
            "filterStrategy": "acorn",
            "flatSearchCutoff": _EXACT_OBJECTS if shards == 1 else _EXACT_SHARD_OBJECTS,
        },
        # Words come without stop words, in many languages; the default would take English ones out.
        "invertedIndexConfig": {
            "bm25": {"k1": 1.2, "b": 0.75},
            "stopwords": {"preset": "none"},
            "usingBlockMaxWAND": True,
        },
        "replicationConfig": {
            "factor": copies,
            "asyncEnabled": copies > 1,
            # Repair chooses the later of two states of an object, a deletion included.
            "deletionStrategy": "TimeBasedResolution",
        },
        "shardingConfig": {"desiredCount": shards},
        "properties": [
            _property("partition_id", "int"),
            _property("collection_id", "text"),
            _property("document_id", "text"),
            _property("source_type", "text"),
            _property("update_microseconds", "int", in_order=True),
            _property("readers", "text[]"),
            _property("metadata", "text[]"),
            {**_property("words", "text"), "tokenization": "whitespace", "indexSearchable": True}
            | {"indexFilterable": False},
            {**_property("content_hash", "text"), "indexFilterable": False},
        ],
    }


def is_quantized_class(definition: Mapping[str, Any]) -> bool:
    """Tell whether a class, as the server describes it, keeps quantized vectors."""
    return bool(definition["vectorIndexConfig"].get("rq", {}).get("enabled"))


def object_of(chunk: IndexedChunk, class_name: str, scale: float) -> wire.BatchObject:
    """Return the object of a chunk, whose vector is multiplied by `scale`."""
    plain = Struct()
    plain.update(
        {
            "partition_id": chunk.partition_id,
            "collection_id": chunk.collection_id,
            "document_id": str(chunk.document_id),
            "words": chunk.words,
            "source_type": chunk.source_type,
            "update_microseconds": microseconds(chunk.update_time),
            "content_hash": chunk.content_hash,
        }
    )
    lists = {"readers": chunk.readers, "metadata": chunk.metadata_tokens}
    return wire.BatchObject(
        uuid=str(object_id(chunk.partition_id, chunk.chunk_id)),
        collection=class_name,
        vector_bytes=(chunk.vector.astype("<f4") * scale).tobytes(),
        properties=wire.BatchObject.Properties(
            non_ref_properties=plain,
            text_array_properties=[
                wire.TextArrayProperties(prop_name=name, values=values)
                for name, values in lists.items()
                if values
            ],
            empty_list_props=[name for name, values in lists.items() if not values],
        ),
    )


def _property(name: str, kind: str, *, in_order: bool = False) -> dict[str, object]:
    """Return a property for filters, matched exactly; `in_order` for those that are compared."""
    definition: dict[str, object] = {
        "name": name,
        "dataType": [kind],
        "indexFilterable": True,
        "indexSearchable": False,
    }
    if kind.startswith("text"):
        definition["tokenization"] = "field"
    if in_order:
        definition["indexRangeFilters"] = True
    return definition
