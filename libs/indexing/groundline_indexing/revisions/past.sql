-- name: noted
-- Partitions in use of those documents whose past is searchable.
SELECT c.partition_id, array_agg(d.document_id) AS document_ids
FROM documents d JOIN collections c USING (collection_id)
WHERE d.document_id = ANY($1::uuid[]) AND d.ingestion_hash <> ''::bytea AND c.history_since IS NOT NULL
GROUP BY c.partition_id

-- name: note
INSERT INTO past_revisions (document_id, valid_from, valid_to, revision, chunk_ids, starts)
SELECT d.document_id, d.update_time, 'infinity', {current}, c.chunk_ids, c.starts
FROM documents d CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(chunk_id ORDER BY chunk_index), '{}') AS chunk_ids,
           coalesce(array_agg(start_offset ORDER BY chunk_index), '{}') AS starts
    FROM chunks WHERE partition_id = $2 AND document_id = d.document_id
) c
WHERE d.document_id = ANY($1::uuid[])

-- name: close
UPDATE past_revisions p SET valid_to = d.update_time FROM documents d
WHERE p.document_id = ANY($1::uuid[]) AND p.valid_to = 'infinity' AND d.document_id = p.document_id

-- name: newest
SELECT max(partition_id) FROM past_partitions WHERE collection_id = $1

-- name: kind
SELECT c.history_since, p.partition_id, p.embedding_model, p.dimensions, p.language
FROM collections c JOIN chunk_partitions p USING (partition_id) WHERE c.collection_id = $1

-- name: is_alike
-- Whether partitions of the past can take chunks of the partition in use.
SELECT (p.embedding_model, p.dimensions, p.language, p.lexical_backend)
    = (i.embedding_model, i.dimensions, i.language, i.lexical_backend)
FROM collections c JOIN chunk_partitions i USING (partition_id)
JOIN chunk_partitions p ON p.partition_id = (
    SELECT max(partition_id) FROM past_partitions s WHERE s.collection_id = c.collection_id
)
WHERE c.collection_id = $1

-- name: end
WITH ended AS (UPDATE collections SET history_since = NULL WHERE collection_id = $1),
gone AS (DELETE FROM past_revisions p USING documents d WHERE d.collection_id = $1 AND p.document_id = d.document_id)
DELETE FROM past_partitions WHERE collection_id = $1 RETURNING partition_id

-- name: kept
-- Collections with a past, up to when it is no longer kept, if ever, and their partitions of it, the newest last.
SELECT c.collection_id, c.partition_id, i.collection_id IS NULL AS is_shared, CASE
    WHEN NOT coalesce((c.settings -> 'history' ->> 'everything')::boolean, false)
    THEN now() - make_interval(days => coalesce((c.settings -> 'history' ->> 'days')::integer, 0))
    END AS until,
    ARRAY(
        SELECT partition_id FROM past_partitions s WHERE s.collection_id = c.collection_id ORDER BY partition_id
    ) AS past,
    pg_table_size(to_regclass('chunks_p' || (
        SELECT max(partition_id) FROM past_partitions s WHERE s.collection_id = c.collection_id
    ))) >= 0.8 * greatest($1, pg_table_size(to_regclass('chunks_p' || c.partition_id))) AS is_full
FROM collections c JOIN chunk_partitions i USING (partition_id)
WHERE c.history_since IS NOT NULL ORDER BY c.collection_id

-- name: forget
-- A longer time that is set later does not bring it back.
WITH gone AS (
    DELETE FROM past_revisions p USING documents d
    WHERE d.collection_id = $1 AND p.document_id = d.document_id AND p.valid_to <= $2 RETURNING true
)
UPDATE collections SET history_since = greatest(history_since, $2)
WHERE collection_id = $1 AND history_since IS NOT NULL AND EXISTS (SELECT FROM gone)

-- name: unbegun
-- Collections that were restored from a backup.
SELECT collection_id FROM collections
WHERE (settings -> 'history' ->> 'searchable')::boolean AND history_since IS NULL
FOR NO KEY UPDATE SKIP LOCKED
