-- name: candidates
-- Partitions in use, those of the past and those a reindex fills, without the index, whose table is large enough at least.
SELECT p.partition_id, p.dimensions,
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
  AND NOT EXISTS ({indexes})
ORDER BY p.partition_id
