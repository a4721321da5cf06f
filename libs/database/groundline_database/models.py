"""Embedding models of the collections in a database."""

from collections.abc import Mapping

from groundline_database.pool import Connection


async def stored_embedding_models(connection: Connection) -> Mapping[tuple[str, int], int]:
    """Count the collections of each model and length of its vectors."""
    rows = await connection.fetch(
        """
        SELECT p.embedding_model, p.dimensions, count(*)
        FROM collections c JOIN chunk_partitions p USING (partition_id) GROUP BY 1, 2
        """
    )
    return {(model, dimensions): count for model, dimensions, count in rows}
