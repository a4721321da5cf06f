-- Sources, and when their runs are due: after the interval, give or take a tenth.

-- name: about
(.9 + .2 * random())

-- name: update
UPDATE sources SET
    name = $3, definition = $4, interval_seconds = $5,
    principals = coalesce($6::text[], principals),
    cursor = CASE WHEN $6::text[] IS NULL THEN cursor ELSE '' END,
    next_run_time = CASE
        WHEN $7 THEN NULL
        WHEN $6::text[] IS NOT NULL THEN clock_timestamp()
        WHEN (definition ->> 'isPaused')::boolean
            THEN CASE WHEN $5 > 0 THEN clock_timestamp() END
        -- A run that is due already stays so.
        WHEN interval_seconds <> $5 AND coalesce(next_run_time > clock_timestamp(), true)
            THEN CASE WHEN $5 > 0 THEN clock_timestamp() + make_interval(secs => $5 * {about}) END
        ELSE next_run_time
    END
WHERE source_id = $1::uuid AND definition = $2 RETURNING true

-- name: set_next_runs
UPDATE sources SET next_run_time = CASE
    WHEN interval_seconds > 0 THEN clock_timestamp() + make_interval(secs => interval_seconds * {about})
END
WHERE source_id = ANY($1::uuid[])

-- name: create
INSERT INTO sources (
    source_id, collection_id, name, definition, principals, interval_seconds,
    next_run_time
)
VALUES ($1::uuid, $2, $3, $4, $5, $6, CASE WHEN NOT $7 THEN clock_timestamp() END)

-- name: lock_due
SELECT s.* FROM sources s JOIN collections c USING (collection_id)
WHERE s.next_run_time <= clock_timestamp()
ORDER BY s.next_run_time LIMIT $1
FOR KEY SHARE OF c SKIP LOCKED FOR UPDATE OF s SKIP LOCKED

-- name: known
SELECT s.uri FROM source_documents s
JOIN unnest($3::text[], $4::text[]) AS f (uri, version) ON s.uri = f.uri
JOIN documents d ON (d.collection_id, d.uri) = (s.collection_id, s.uri)
WHERE s.collection_id = $1 AND s.source_id = $2::uuid
  AND (f.version IS NULL OR s.version = f.version)

-- name: find_documents
UPDATE source_documents s SET job_id = $1::uuid
FROM unnest($4::text[], $5::text[]) AS f (uri, version)
WHERE s.collection_id = $2 AND s.source_id = $3::uuid AND s.uri = f.uri
RETURNING s.uri, (f.version IS NULL OR s.version = f.version) AND EXISTS (
    SELECT FROM documents d WHERE d.collection_id = s.collection_id AND d.uri = s.uri
) AS is_unchanged

-- name: brought_by_others
SELECT u.uri FROM unnest($2::text[]) AS u (uri)
LEFT JOIN source_documents s ON s.collection_id = $1 AND s.uri = u.uri
WHERE CASE WHEN s.source_id IS NULL THEN EXISTS (
    SELECT FROM documents d WHERE d.collection_id = $1 AND d.uri = u.uri
) ELSE s.source_id <> $3::uuid END

-- name: record_document
INSERT INTO source_documents (collection_id, uri, source_id, version, job_id)
VALUES ($1, $2, $3::uuid, $4, $5::uuid)
ON CONFLICT (collection_id, uri) DO UPDATE
SET version = excluded.version, job_id = excluded.job_id
WHERE source_documents.source_id = excluded.source_id

-- name: lock_missing
SELECT uri FROM source_documents
WHERE source_id = $1::uuid
  AND CASE WHEN $2::text[] IS NULL THEN job_id <> $3::uuid ELSE uri = ANY($2::text[]) END
ORDER BY uri LIMIT $4 FOR UPDATE

-- name: delete_empty_run
DELETE FROM ingestion_jobs j WHERE job_id = $1 AND deleted_count = 0 AND is_announced
  AND EXISTS (SELECT FROM ingestion_items i WHERE i.job_id = j.job_id AND i.state = 'done')
  AND NOT EXISTS (
      SELECT FROM ingestion_items i WHERE i.job_id = j.job_id AND i.source_id IS NULL
  )
