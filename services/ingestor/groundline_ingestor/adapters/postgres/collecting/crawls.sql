-- Pages of crawls and runs of sources, as items of their job.

-- name: add_preview
INSERT INTO ingestion_items (
    job_id, item_index, collection_id, uri, document_id, state, outcome, failure, is_page,
    start_time, end_time
)
SELECT $1::uuid, $2, collection_id, $3, $4, $5, $6, $7, true, now(), now()
FROM ingestion_jobs WHERE job_id = $1::uuid
ON CONFLICT (job_id, item_index) DO UPDATE SET
    document_id = excluded.document_id, state = excluded.state, outcome = excluded.outcome,
    failure = excluded.failure, change_time = clock_timestamp(), end_time = excluded.end_time

-- name: add_removal
INSERT INTO ingestion_items (
    job_id, item_index, collection_id, uri, document_id, state, outcome, is_page, start_time,
    end_time
)
SELECT $1::uuid, $2, j.collection_id, $3, d.document_id, 'done', $4, true, now(), now()
FROM ingestion_jobs j
LEFT JOIN documents d ON d.collection_id = j.collection_id AND d.uri = $3
WHERE j.job_id = $1::uuid
ON CONFLICT (job_id, item_index) DO UPDATE SET
    document_id = excluded.document_id, state = excluded.state, outcome = excluded.outcome,
    failure = NULL, change_time = clock_timestamp(), end_time = excluded.end_time

-- name: add_failure
INSERT INTO ingestion_items
    (job_id, item_index, collection_id, uri, state, failure, is_page, start_time, end_time)
SELECT $1::uuid, $2, collection_id, $3, 'failed', $4, true, now(), now()
FROM ingestion_jobs WHERE job_id = $1::uuid
ON CONFLICT (job_id, item_index) DO UPDATE SET
    failure = excluded.failure, change_time = clock_timestamp(), end_time = excluded.end_time

-- name: queue_page_again
UPDATE ingestion_items SET
    state = 'queued', failure = NULL, document_id = $3, input = $4, end_time = NULL,
    change_time = clock_timestamp()
WHERE job_id = $1::uuid AND item_index = $2

-- name: page_index
SELECT item_index, state = 'failed' AND NOT EXISTS (
    SELECT FROM ingestion_payloads p WHERE (p.job_id, p.item_index) = (i.job_id, i.item_index)
) AS is_missing
FROM ingestion_items i WHERE job_id = $1::uuid AND uri = $2 AND is_page
