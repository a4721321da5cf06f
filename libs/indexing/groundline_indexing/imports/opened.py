"""Names of an import and of its tables."""

from typing import NamedTuple

from groundline_indexing.partitions import chunk_table


class Import(NamedTuple):
    """An import, as far as its processes have to know it."""

    collection_id: str
    partition_id: int

    @property
    def chunks(self) -> str:
        return chunk_table(self.partition_id)

    @property
    def documents(self) -> str:
        return f"imported_p{self.partition_id:d}_documents"

    @property
    def texts(self) -> str:
        return f"imported_p{self.partition_id:d}_texts"

    @property
    def kept(self) -> str:
        """Table of the documents whose chunks were copied from the partition in use, with their versions."""
        return f"imported_p{self.partition_id:d}_kept"

    @property
    def replaced(self) -> str:
        """Table of the revisions that are replaced, for the time of the switch."""
        return f"imported_p{self.partition_id:d}_replaced"
