-- Leasing of items, and what workers report of them. $1 of what is available are the embedding models.

-- name: available
-- Documents wait for an earlier hand-in of their uri, and while a re-index of their collection finishes. While
-- a new model is rolled out there are workers of both; each takes the documents of its own model.
FROM ingestion_items i
JOIN ingestion_jobs j USING (job_id)
LEFT JOIN chunk_partitions p ON p.partition_id = j.partition_id
WHERE i.{is_pending} AND i.collection_id IS NOT NULL AND i.lease_id IS NULL
  AND EXISTS (
      SELECT FROM collections c
      JOIN chunk_partitions made ON made.partition_id = coalesce(j.partition_id, c.partition_id)
      WHERE c.collection_id = i.collection_id AND made.embedding_model = ANY($1::text[])
  )
  AND i.available_time <= clock_timestamp()
  AND (j.kind = 'reindex' OR NOT EXISTS (
      SELECT FROM ingestion_items earlier
      WHERE earlier.collection_id = i.collection_id AND earlier.uri = i.uri
        AND earlier.queue_id < i.queue_id AND earlier.{is_pending} AND earlier.input IS NOT NULL
  ) AND NOT EXISTS (
      SELECT FROM ingestion_jobs r
      WHERE r.collection_id = i.collection_id AND r.kind = 'reindex' AND r.end_time IS NULL
        AND r.is_finishing
  ))

-- name: has_suspects
SELECT EXISTS (SELECT {available} AND i.is_suspect)

-- name: select_available
SELECT i.*, j.kind, j.settings, j.principals, j.traceparent, p.partition_id, p.embedding_model, p.dimensions, p.language
{available} AND i.is_suspect = $3

-- name: in_order
ORDER BY i.queue_id LIMIT $2 FOR UPDATE OF i SKIP LOCKED

-- name: lease
{select_available} {in_order}

-- name: lease_suspects
-- Half of those that were begun most often: the half that is lost again is begun more often than all others, so
-- it is halved next, and what ends its worker is alone after as many losses as halvings.
WITH waiting AS (
    SELECT i.job_id, i.item_index, i.attempts,
           row_number() OVER alike AS place, count(*) OVER (PARTITION BY i.attempts) AS alike
    {available} AND i.is_suspect WINDOW alike AS (PARTITION BY i.attempts ORDER BY i.queue_id)
), half AS MATERIALIZED (
    SELECT job_id, item_index FROM waiting
    WHERE attempts = (SELECT max(attempts) FROM waiting) AND place <= (alike + 1) / 2
)
{select_available} AND (i.job_id, i.item_index) IN (SELECT * FROM half) {in_order}

-- name: lease_of_others
-- By the jobs, of which there are few: owners that are passed over may have a million items waiting.
WITH RECURSIVE waiting AS (
    (SELECT job_id FROM ingestion_items WHERE {is_pending} ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT i.job_id FROM ingestion_items i
        WHERE i.{is_pending} AND i.job_id > waiting.job_id ORDER BY i.job_id LIMIT 1
    ) FROM waiting WHERE waiting.job_id IS NOT NULL
), of_others AS MATERIALIZED (
    SELECT job_id FROM waiting JOIN ingestion_jobs j USING (job_id)
    WHERE coalesce(j.principals[1], '') <> ALL($4::text[])
)
{select_available} AND i.job_id IN (SELECT job_id FROM of_others) {in_order}

-- name: details
-- What a worker needs of an item beyond its row: contents of at most $3 bytes, and whether there is none yet.
SELECT job_id, item_index,
       (
           SELECT data FROM ingestion_payloads p
           WHERE (p.job_id, p.item_index, p.part) = (i.job_id, i.item_index, 0)
             AND octet_length(data) <= $3
       ) AS content,
       EXISTS (
           SELECT FROM documents d WHERE d.document_id = i.document_id AND d.ingestion_hash = ''::bytea
       ) AS is_first
FROM ingestion_items i JOIN unnest($1::uuid[], $2::int[]) AS k (job_id, item_index)
    USING (job_id, item_index)
WHERE i.input IS NOT NULL

-- name: extend
UPDATE ingestion_items
SET lease_until = clock_timestamp() + make_interval(secs => lease_seconds)
WHERE (job_id, item_index) IN (
    SELECT job_id, item_index FROM ingestion_items
    WHERE lease_id = ANY($1::uuid[]) FOR UPDATE SKIP LOCKED
)

-- name: show_progress
UPDATE documents d SET state = s.state
FROM (
    SELECT d.document_id, k.state FROM documents d
    JOIN unnest($1::uuid[], $2::text[]) AS k (document_id, state) USING (document_id)
    FOR UPDATE OF d SKIP LOCKED
) s WHERE s.document_id = d.document_id

-- name: spend
UPDATE ingestion_items i SET
    prompt_tokens = i.prompt_tokens + s.prompt_tokens,
    cached_tokens = i.cached_tokens + s.cached_tokens,
    output_tokens = i.output_tokens + s.output_tokens,
    embedding_tokens = i.embedding_tokens + s.embedding_tokens,
    cost_usd = CASE
        -- A local model's work is free: it makes no price known.
        WHEN s.prompt_tokens + s.output_tokens = 0 AND s.cost_usd = 0 THEN i.cost_usd
        -- Unknown once is unknown for good: an earlier release told no price.
        ELSE coalesce(i.cost_usd, CASE WHEN i.prompt_tokens + i.output_tokens = 0 THEN 0 ELSE 'NaN'::float8 END)
            + coalesce(s.cost_usd, 'NaN'::float8)
    END,
    change_time = clock_timestamp()
FROM unnest(
    $1::uuid[], $2::int[], $3::uuid[], $4::int[], $5::int[], $6::int[], $7::int[], $8::double precision[]
) AS s (
    job_id, item_index, lease_id, prompt_tokens, cached_tokens, output_tokens, embedding_tokens, cost_usd
)
WHERE (i.job_id, i.item_index, i.lease_id) = (s.job_id, s.item_index, s.lease_id)

-- name: fail_documents
UPDATE documents d SET state = 'failed', failure = i.failure
FROM ingestion_items i JOIN unnest($1::uuid[], $2::int[]) AS k (job_id, item_index)
    USING (job_id, item_index) JOIN ingestion_jobs j USING (job_id)
WHERE i.input IS NOT NULL AND d.document_id = i.document_id AND {is_replaceable}

-- name: fail_document
UPDATE documents d SET state = 'failed', failure = $4
FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
WHERE {is_held} AND i.input IS NOT NULL AND d.document_id = i.document_id AND {is_replaceable}

-- name: discard
DELETE FROM ingestion_payloads WHERE (job_id, item_index) IN (
    SELECT job_id, item_index FROM ingestion_items i
    WHERE i.state IN ('failed', 'cancelled')
      AND i.end_time < clock_timestamp() - make_interval(secs => $1)
      AND EXISTS (
          SELECT FROM ingestion_payloads p
          WHERE (p.job_id, p.item_index) = (i.job_id, i.item_index)
      )
    LIMIT 100
)

-- name: shorten_leases
UPDATE ingestion_items
SET lease_until = clock_timestamp() + make_interval(secs => lease_seconds)
WHERE lease_id IS NOT NULL
  AND lease_until > clock_timestamp() + make_interval(secs => lease_seconds)

-- name: lock_leased
SELECT i.* FROM ingestion_items i
JOIN unnest($1::uuid[], $2::int[], $3::uuid[]) AS k (job_id, item_index, lease_id)
    USING (job_id, item_index, lease_id)
FOR UPDATE OF i SKIP LOCKED
