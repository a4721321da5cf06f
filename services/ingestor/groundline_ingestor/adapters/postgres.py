"""What the PostgreSQL adapters share."""

__all__ = ["chunk_table"]


def chunk_table(partition_id: int) -> str:
    """Name of a partition of chunks; safe in SQL."""
    return f"chunks_p{partition_id:d}"
