-- name: candidates
-- Partitions in use, those of the past and those a reindex fills, without the index, whose table is large enough at least.
SELECT p.partition_id, p.dimensions, {is_quantized} AS is_quantized,
    CASE WHEN j.job_id IS NULL THEN EXISTS (
        SELECT FROM ingestion_items i
        JOIN ingestion_jobs k USING (job_id) JOIN collections c ON c.collection_id = i.collection_id
        WHERE c.partition_id = p.partition_id AND k.kind <> 'reindex' AND i.{is_pending}
    ) ELSE EXISTS (
        SELECT FROM ingestion_items i WHERE i.job_id = j.job_id AND i.{is_pending}
    ) END AS is_loading
FROM chunk_partitions p
LEFT JOIN collections c ON c.collection_id = p.collection_id
LEFT JOIN ingestion_jobs j
    ON j.partition_id = p.partition_id AND j.kind = 'reindex' AND j.end_time IS NULL
WHERE (p.collection_id IS NULL OR c.partition_id = p.partition_id OR j.job_id IS NOT NULL
       OR EXISTS (SELECT FROM past_partitions t WHERE t.partition_id = p.partition_id))
  AND pg_table_size(to_regclass('chunks_p' || p.partition_id)) >= $1::bigint * 2 * p.dimensions
  AND NOT EXISTS ({indexes} AND {is_of_bits} = {is_quantized})
ORDER BY p.partition_id

-- name: replaced
-- Indexes of the other kind than their collection has, where it has one of its kind.
SELECT p.partition_id, x.indexrelid::regclass::text AS name
FROM chunk_partitions p JOIN collections c ON c.collection_id = p.collection_id
JOIN pg_index x ON x.indrelid = to_regclass('chunks_p' || p.partition_id)
JOIN pg_class k ON k.oid = x.indexrelid JOIN pg_am a ON a.oid = k.relam
JOIN pg_opclass o ON o.oid = x.indclass[0]
WHERE a.amname = 'hnsw' AND {is_of_bits} <> {is_quantized}
  AND EXISTS ({indexes} AND {is_of_bits} = {is_quantized})

-- name: tried
UPDATE chunk_partitions SET found_by_bits = $2 WHERE partition_id = $1

-- name: is_refused
-- Whether the collection asks for bits, which were found to tell its vectors too little apart.
SELECT EXISTS (
    SELECT FROM chunk_partitions p JOIN collections c ON c.collection_id = p.collection_id
    WHERE p.partition_id = $1 AND {is_quantized} AND p.found_by_bits < $2
      AND NOT EXISTS ({indexes} AND {is_of_bits})
)
