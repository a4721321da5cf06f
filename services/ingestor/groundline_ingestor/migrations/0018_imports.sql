-- Bulk loads of files (`groundline import`), each into a table of chunks beside the collection's partition, which takes
-- its place when it is complete. Its documents wait in tables of its own (imported_p<partition_id>_…).

CREATE TABLE imports (
    -- No foreign key: its tables have to be dropped when the collection is gone.
    collection_id text PRIMARY KEY,
    -- Of the table that it fills, chunks_p<partition_id>: no partition, and not in chunk_partitions, before the switch.
    partition_id bigint NOT NULL,
    -- Name, size and a hash of each file, in their order: an import goes on with the same files only.
    files jsonb NOT NULL,
    -- The partition from which chunks of other documents were copied; null before.
    copied_from bigint,
    -- As in chunk_partitions, once the keyword index is there.
    lexical_built_after timestamptz,
    create_time timestamptz NOT NULL DEFAULT now()
);

-- What has been loaded: a batch's rows and its row here are written in one transaction.
CREATE TABLE import_batches (
    collection_id text NOT NULL REFERENCES imports ON DELETE CASCADE,
    batch integer NOT NULL,
    document_count integer NOT NULL,
    -- Documents that were not in the collection, and the bytes by which its documents grow.
    added_count integer NOT NULL,
    byte_count bigint NOT NULL,
    chunk_count integer NOT NULL,
    unchanged_count integer NOT NULL,
    -- Records that are wrong: {"file", "line", "field", "description"}.
    failures jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (collection_id, batch)
);
