-- Chunks of replaced revisions, of collections whose history is searchable: in partitions of their own, which no search of
-- the present reads. Older versions neither write nor read them: what they replace leaves no chunks.

-- When a chunk began to be current, if before its document's update_time, since the last revisions left it as it was; and in
-- partitions of the past, when it ceased to be.
ALTER TABLE chunks ADD COLUMN valid_from timestamptz, ADD COLUMN valid_to timestamptz;

-- Tables that unfinished imports fill become partitions, and need the same columns.
DO $$
DECLARE
    filled text;
BEGIN
    FOR filled IN
        SELECT 'chunks_p' || partition_id FROM imports WHERE to_regclass('chunks_p' || partition_id) IS NOT NULL
            AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass('chunks_p' || partition_id))
    LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN valid_from timestamptz, ADD COLUMN valid_to timestamptz', filled);
    END LOOP;
END
$$;

-- Since when the collection's past is searchable; null if it is not.
ALTER TABLE collections ADD COLUMN history_since timestamptz;

-- The past of a collection is filled one partition after the other, so that a search of one time reads few: those with
-- chunks that ceased to be current at or after it, up to where all began later. The newest is written.
CREATE TABLE past_partitions (
    partition_id bigint PRIMARY KEY REFERENCES chunk_partitions ON DELETE CASCADE,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE
);
CREATE INDEX ON past_partitions (collection_id, partition_id);

-- What a document was from one time to another: a revision, and its chunks with their places. Those that did not change are
-- chunks of several revisions.
CREATE TABLE past_revisions (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    valid_from timestamptz NOT NULL,
    -- 'infinity' within the transaction that replaces it.
    valid_to timestamptz NOT NULL,
    revision text NOT NULL,
    -- In the text's order, and where each starts in it, in code points.
    chunk_ids bigint[] NOT NULL,
    starts integer[] NOT NULL,
    PRIMARY KEY (document_id, valid_from)
);
