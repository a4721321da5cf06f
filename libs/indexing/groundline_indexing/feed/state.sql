-- The outbox of a search index outside PostgreSQL, and the index's progress.

-- name: add_partitions
-- A fill reads all chunks: changes recorded until now would only be delivered twice.
WITH added AS (
    INSERT INTO search_index_partitions (partition_id, embedding_model, dimensions, is_quantized, fill_end)
    SELECT partition_id, embedding_model, dimensions, is_quantized, ({last_chunk_id}) FROM chunk_partitions AS p
    WHERE NOT EXISTS (SELECT FROM search_index_partitions AS s WHERE s.partition_id = p.partition_id)
      -- Only PostgreSQL searches the past.
      AND NOT EXISTS (SELECT FROM past_partitions AS t WHERE t.partition_id = p.partition_id)
    ON CONFLICT DO NOTHING RETURNING partition_id
)
DELETE FROM search_index_changes WHERE partition_id IN (SELECT partition_id FROM added)

-- name: drop_strays
-- Partitions that were created and dropped between two looks never got to the index, and those of the past never do.
DELETE FROM search_index_changes AS c
WHERE NOT EXISTS (SELECT FROM search_index_partitions AS s WHERE s.partition_id = c.partition_id)
  AND (NOT EXISTS (SELECT FROM chunk_partitions AS p WHERE p.partition_id = c.partition_id)
       OR EXISTS (SELECT FROM past_partitions AS t WHERE t.partition_id = c.partition_id))

-- name: due
SELECT s.partition_id, s.embedding_model, s.dimensions, s.is_quantized, p.partition_id IS NULL AS is_gone
FROM search_index_partitions AS s LEFT JOIN chunk_partitions AS p USING (partition_id)
WHERE p.partition_id IS NULL OR s.fill_position IS NOT NULL OR EXISTS (
    SELECT FROM search_index_changes AS c
    WHERE c.partition_id = s.partition_id AND c.available_time <= clock_timestamp()
)
ORDER BY s.fill_position IS NOT NULL, s.partition_id

-- name: changes
SELECT change_id, chunk_id FROM search_index_changes
WHERE partition_id = $1 AND available_time <= clock_timestamp() ORDER BY change_id LIMIT $2

-- name: done
-- Chunks that were refused before and are in the index now need no further attempt.
DELETE FROM search_index_changes WHERE partition_id = $1
  AND (change_id = ANY($2::bigint[]) OR failure IS NOT NULL AND chunk_id = ANY($3::bigint[]))

-- name: refused
UPDATE search_index_changes AS c
SET attempts = attempts + 1, failure = r.failure, available_time = CASE
    WHEN attempts + 1 >= $4 THEN 'infinity'
    ELSE clock_timestamp() + make_interval(secs => least($5, 2.0 ^ attempts))
END
FROM unnest($2::bigint[], $3::text[]) AS r (chunk_id, failure)
WHERE c.partition_id = $1 AND c.chunk_id = r.chunk_id AND c.change_id = ANY($6::bigint[])

-- name: state
SELECT count(*) AS partitions, count(*) FILTER (WHERE fill_position IS NOT NULL) AS unfilled,
       (SELECT count(*) FROM search_index_changes WHERE available_time < 'infinity') AS pending,
       (SELECT count(DISTINCT (partition_id, chunk_id)) FROM search_index_changes
        WHERE available_time = 'infinity') AS set_aside,
       (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(behind_since)), 0)
        FROM search_index_coverage) AS behind_seconds
FROM search_index_partitions

-- name: partitions
SELECT s.*, coalesce(p.collection_id, '') AS collection_id, p.partition_id IS NULL AS is_gone,
       greatest(coalesce(k.reltuples, 0), 0)::bigint AS chunk_count,
       c.pending, c.set_aside,
       coalesce(extract(epoch FROM clock_timestamp() - c.since), 0) AS behind_seconds
FROM search_index_partitions AS s LEFT JOIN chunk_partitions AS p USING (partition_id)
LEFT JOIN pg_class AS k ON k.oid = to_regclass('chunks_p' || s.partition_id)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE available_time < 'infinity') AS pending,
           count(DISTINCT chunk_id) FILTER (WHERE available_time = 'infinity') AS set_aside,
           min(change_time) AS since
    FROM search_index_changes AS c WHERE c.partition_id = s.partition_id
) AS c
WHERE $1::text IS NULL OR p.collection_id = $1
   OR s.partition_id IN (SELECT partition_id FROM collections WHERE collection_id = $1)
ORDER BY s.partition_id

-- name: is_behind
-- Chunks that are set aside keep nobody waiting.
SELECT EXISTS (SELECT FROM search_index_partitions) AND (
    NOT EXISTS (
        SELECT FROM search_index_partitions WHERE partition_id = $1 AND fill_position IS NULL
    ) OR EXISTS (
        SELECT FROM search_index_changes WHERE partition_id = $1 AND available_time < 'infinity'
    )
)
