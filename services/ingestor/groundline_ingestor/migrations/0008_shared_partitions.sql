-- Small collections share a partition, since a search costs by partitions: see docs/adr/0001-shared-partitions.md.

-- A shared partition, which is no collection's, holds all small ones of its model, dimensions, language and backend.
ALTER TABLE chunk_partitions ALTER COLUMN collection_id DROP NOT NULL;
CREATE UNIQUE INDEX chunk_partitions_shared
    ON chunk_partitions (embedding_model, dimensions, language, lexical_backend) WHERE collection_id IS NULL;
CREATE INDEX collections_partition ON collections (partition_id);

-- Null only in rows that an older release wrote, into partitions of one collection.
ALTER TABLE chunks ADD COLUMN collection_id text;

-- What collections left in a shared partition. Searches that began before still find it there, until drop_time.
CREATE TABLE left_partitions (
    partition_id bigint NOT NULL REFERENCES chunk_partitions ON DELETE CASCADE,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    -- Where the same chunks are now; null where a reindex made others.
    moved_to bigint,
    drop_time timestamptz NOT NULL,
    PRIMARY KEY (partition_id, collection_id)
);
CREATE INDEX ON left_partitions (drop_time);
