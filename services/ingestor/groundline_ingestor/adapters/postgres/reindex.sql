-- Re-indexes: their jobs, and the switch to the new partition.

-- name: or_replace
ON CONFLICT (partition_id, document_id) DO UPDATE SET
    version = excluded.version, ingestion_hash = excluded.ingestion_hash,
    chunk_count = excluded.chunk_count, token_count = excluded.token_count

-- name: remember
-- The documents as they are in the partition in use.
INSERT INTO reindexed_documents
    (partition_id, document_id, version, ingestion_hash, chunk_count, token_count)
SELECT $2, document_id, version, ingestion_hash, chunk_count, token_count
FROM documents WHERE collection_id = $1 AND chunk_count > 0
{or_replace}

-- name: insert_items
INSERT INTO ingestion_items
    (job_id, item_index, collection_id, uri, document_id, state)
SELECT $1::uuid, row_number() OVER (ORDER BY uri) - 1, collection_id, uri, document_id, 'queued'
FROM documents WHERE collection_id = $2 AND chunk_count > 0

-- name: record_document
INSERT INTO reindexed_documents
    (partition_id, document_id, version, ingestion_hash, chunk_count, token_count)
VALUES ($1, $2::uuid, $3, $4, $5, $6)
{or_replace}

-- name: take_figures
UPDATE documents d SET ingestion_hash = r.ingestion_hash, chunk_count = r.chunk_count,
                       token_count = r.token_count, provenance = provenance || $2::jsonb
FROM reindexed_documents r
WHERE r.partition_id = $1 AND d.document_id = r.document_id AND d.chunk_count > 0

-- name: switch
UPDATE collections
SET partition_id = $2, settings = (settings - 'chunking' - 'contextualization') || $3::jsonb,
    previous_partition_id = $4, candidate_partition_id = NULL,
    previous_settings = CASE WHEN $4::bigint IS NOT NULL THEN settings END,
    update_time = clock_timestamp()
WHERE collection_id = $1

-- name: insert_job
INSERT INTO ingestion_jobs
    (job_id, collection_id, state, request_id, kind, partition_id, settings, holds_index,
     keeps_previous, traceparent)
VALUES ($1::uuid, $2, 'queued', nullif($3, ''), 'reindex', $4, $5, $6, $7, $8)
