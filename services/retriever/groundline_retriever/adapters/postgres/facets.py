"""Counts of the values of documents' fields."""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import is_readable_collection, is_readable_document
from groundline_filters import Columns, FacetField, Path, compile_sql

from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.domain import Selection

MAX_VALUE_CHARACTERS: Final = 256

# The documents are read once for all facets. Without chunks a document has nothing to find.
_MATCHED: Final = """
    WITH matched AS MATERIALIZED (
        SELECT {values} FROM documents
        WHERE collection_id IN (
            SELECT collection_id FROM collections
            WHERE collection_id = ANY ($1::text[]) AND {is_readable_collection}
        ) AND chunk_count > 0 AND {is_readable_document} AND {condition}
    )
"""

_COUNTED: Final = """
    (SELECT {number:d} AS field, element::text AS value, count(*) AS documents
    FROM matched, LATERAL (
        SELECT DISTINCT element FROM jsonb_array_elements(
            CASE jsonb_typeof(value_{number:d})
                WHEN 'array' THEN value_{number:d} ELSE jsonb_build_array(value_{number:d})
            END
        ) AS element
        WHERE value_{number:d} IS NOT NULL AND jsonb_typeof(element) NOT IN ('array', 'object')
            AND length(element::text) <= {characters:d}
    ) AS held
    GROUP BY element ORDER BY documents DESC, element::text COLLATE "C" LIMIT {limit:d})
"""


class Facets:
    """Counts over documents that a caller may read."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def count(
        self,
        collection_ids: Sequence[str],
        fields: Sequence[Path | FacetField],
        selection: Selection,
        *,
        limit: int,
    ) -> Sequence[pb.Facet]:
        """See ChunkStore.facets."""
        arguments: list[Any] = [list(collection_ids), selection.principals]
        values = []
        for number, field in enumerate(fields):
            value = f"to_jsonb({field.value})" if isinstance(field, FacetField) else "metadata"
            for name in () if isinstance(field, FacetField) else field:
                arguments.append(name)
                value += f" -> ${len(arguments)}::text"
            values.append(f"{value} AS value_{number:d}")
        condition = "true"
        if selection.filter is not None:
            compiled = compile_sql(selection.filter, Columns(), first_parameter=len(arguments) + 1)
            condition = compiled.text
            arguments += compiled.arguments
        matched = _MATCHED.format(
            values=", ".join(values),
            condition=condition,
            is_readable_collection=is_readable_collection("$2"),
            is_readable_document=is_readable_document("$2"),
        )
        counted = (
            # In quotation marks; of what is written with escapes a little less.
            _COUNTED.format(number=number, limit=limit + 1, characters=MAX_VALUE_CHARACTERS + 2)
            for number in range(len(fields))
        )
        statement = f"{matched} {' UNION ALL '.join(counted)}"
        async with self._reads.connection() as connection:
            rows = await connection.fetch(statement, *arguments)
        found = [pb.Facet() for _ in fields]
        for number, value, documents in rows:
            facet = found[number]
            if len(facet.values) == limit:
                facet.has_more = True
            elif (message := _value(value)) is not None:
                facet.values.add(value=message, document_count=documents)
        return found


def _value(encoded: str) -> Value | None:
    """Return a scalar of JSON; None for a number that JSON's readers do not have."""
    value = json.loads(encoded, parse_int=float)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    message = Value()
    json_format.ParseDict(value, message)
    return message
