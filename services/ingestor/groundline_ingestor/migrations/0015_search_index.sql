-- What feeds a search index outside PostgreSQL, which has an object for each row of chunks: of the same key
-- (partition_id, chunk_id), since moved chunks keep their ids, and searched by partition_id, so that a re-index is
-- switched there in the moment in which collections.partition_id is.

-- The outbox: chunks that were written, changed or deleted since the index took them in. What to do follows from whether
-- the chunk is there. A trigger on chunks writes it in the transaction of the change, whoever makes it: this release,
-- an earlier one, a bulk load. It is made when feeding begins and dropped when it ends; without it nothing is written.
CREATE TABLE search_index_changes (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL,
    chunk_id bigint NOT NULL,
    change_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- How often the index refused this object alone, and why it did last.
    attempts integer NOT NULL DEFAULT 0,
    failure text,
    -- Not before this; 'infinity' for one that is set aside until somebody has it tried again.
    available_time timestamptz NOT NULL DEFAULT '-infinity'
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX ON search_index_changes (partition_id, change_id);
CREATE INDEX search_index_changes_refused ON search_index_changes (partition_id, chunk_id) WHERE failure IS NOT NULL;

CREATE FUNCTION record_search_index_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO search_index_changes (partition_id, chunk_id) VALUES (OLD.partition_id, OLD.chunk_id);
    ELSE
        INSERT INTO search_index_changes (partition_id, chunk_id) VALUES (NEW.partition_id, NEW.chunk_id);
    END IF;
    -- Sent once for a transaction, however often it is called.
    PERFORM pg_notify('groundline_search_index', '');
    RETURN NULL;
END
$$;

-- Partitions that are fed. No foreign key: a row whose partition is gone says that its objects are still to be deleted.
CREATE TABLE search_index_partitions (
    partition_id bigint PRIMARY KEY,
    -- Where the index keeps the objects, as in chunk_partitions.
    embedding_model text NOT NULL,
    dimensions integer NOT NULL,
    -- The last chunk that was read from the table to fill the index, in the order of chunk_id; null when all were.
    fill_position bigint DEFAULT 0,
    filled_count bigint NOT NULL DEFAULT 0,
    fill_time timestamptz
);

-- The watermark of each partition: one without a row is not in the index. A partition is complete there up to the change
-- before `behind_since`, and up to now where that is null, provided that it is filled.
CREATE VIEW search_index_coverage AS
SELECT partition_id, fill_position IS NULL AS is_filled, (
    SELECT change_time FROM search_index_changes AS c
    WHERE c.partition_id = p.partition_id ORDER BY change_id LIMIT 1
) AS behind_since
FROM search_index_partitions AS p;
