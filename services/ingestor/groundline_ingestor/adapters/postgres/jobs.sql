-- Jobs and their items as callers see them, and what is done to a whole job.

-- name: visible_item
-- $1 are the caller's principals; null: no caller, who sees all. A caller sees all items of its own jobs, and
-- in other jobs those that were not handed in for others only, unless their uri holds a document that it may
-- not read.
($1::text[] IS NULL OR j.principals[1] = ($1::text[])[1] OR (
    (
        coalesce(i.input -> 'allowedPrincipals', '[]') = '[]'
        OR i.input -> 'allowedPrincipals' ?| $1::text[]
    )
    AND NOT EXISTS (
        SELECT FROM documents d
        WHERE d.collection_id = i.collection_id AND d.uri = i.uri
          AND NOT {is_readable_document}
    )
))

-- name: select
SELECT j.job_id, j.collection_id, j.kind, j.state, j.create_time, j.end_time,
       j.cancel_time IS NOT NULL AS is_cancelled, j.deleted_count, j.is_dry_run,
       j.holds_index IS TRUE AND j.end_time IS NULL
           AND j.partition_id IS NOT DISTINCT FROM c.candidate_partition_id AS is_held,
       {written_position} AS position,
       (
           SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM (
               SELECT i.state,
                      num_nonnulls(i.crawl, i.dry_crawl, i.source_id, i.dry_source_id) > 0 AS is_crawl,
                      i.attempts > 0 AS is_begun,
                      i.outcome IS NOT DISTINCT FROM 'unchanged' AS is_unchanged,
                      i.state = 'done' AND i.failure IS NOT NULL AS is_skipped,
                      {visible_item} AS is_visible, count(*) AS count,
                      min(i.start_time) AS start_time, max(i.end_time) AS end_time,
                      sum(i.parsed_count) AS parsed_count,
                      sum(i.contextualized_count) AS contextualized_count,
                      sum(i.embedded_count) AS embedded_count, sum(i.stored_count) AS stored_count,
                      sum(i.prompt_tokens) AS prompt_tokens, sum(i.cached_tokens) AS cached_tokens,
                      sum(i.output_tokens) AS output_tokens,
                      sum(i.embedding_tokens) AS embedding_tokens,
                      sum(coalesce(i.cost_usd, 'NaN')) FILTER (WHERE i.prompt_tokens + i.output_tokens > 0 OR i.cost_usd IS NOT NULL)
                          AS cost_usd
               FROM ingestion_items i
               WHERE i.job_id = j.job_id GROUP BY 1, 2, 3, 4, 5, 6
           ) t
       ) AS tallies
FROM ingestion_jobs j
JOIN collections c USING (collection_id)

-- name: list_readable
{select}
WHERE {is_readable_collection}
  AND ($2::text IS NULL OR j.collection_id = $2)
  AND ($3::timestamptz IS NULL OR (j.create_time, j.job_id) < ($3, $4::uuid))
ORDER BY j.create_time DESC, j.job_id DESC LIMIT $5

-- name: items
SELECT i.* FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
WHERE i.job_id = $2::uuid AND {visible_item} AND i.item_index > $3
  AND (NOT $5 OR i.state = 'failed')
ORDER BY i.item_index LIMIT $4

-- name: changed_items
SELECT i.* FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
WHERE i.job_id = $2::uuid AND {visible_item}
  AND i.change_time > clock_timestamp() - make_interval(secs => $3)
ORDER BY i.item_index LIMIT $4

-- name: hold_collection
-- A deletion of a collection locks it, and then its jobs and their items; a change of a job locks these the
-- other way round, and so has to lock the collection before.
SELECT FROM collections c JOIN ingestion_jobs j USING (collection_id)
WHERE j.job_id = $1::uuid FOR KEY SHARE OF c

-- name: cancel
UPDATE ingestion_jobs
SET cancel_time = coalesce(cancel_time, now()),
    state = CASE WHEN kind = 'reindex' AND end_time IS NULL THEN 'cancelled' ELSE state END,
    end_time = CASE WHEN kind = 'reindex' THEN coalesce(end_time, now()) ELSE end_time END
WHERE job_id = $1::uuid AND (kind = 'ingest' OR end_time IS NULL)

-- name: cancel_documents
UPDATE documents SET state = 'cancelled' WHERE document_id IN (
    SELECT d.document_id FROM documents d JOIN ingestion_items i USING (document_id)
    JOIN ingestion_jobs j USING (job_id)
    WHERE i.job_id = $1::uuid AND i.state = 'cancelled' AND j.kind = 'ingest'
      AND d.state NOT IN ('done', 'failed', 'cancelled')
    FOR UPDATE OF d SKIP LOCKED
)

-- name: retriable
-- Failed and cancelled documents whose content is kept, unless a later hand-in of their uri is done; and a
-- crawl that ended without its pages.
i.job_id = $1::uuid AND (
    i.state IN ('failed', 'cancelled')
    AND EXISTS (
        SELECT FROM ingestion_payloads p WHERE (p.job_id, p.item_index) = (i.job_id, i.item_index)
    )
    AND NOT EXISTS (
        SELECT FROM ingestion_items later
        WHERE later.collection_id = i.collection_id AND later.uri = i.uri
          AND later.queue_id > i.queue_id AND later.state = 'done'
          AND EXISTS (
              SELECT FROM ingestion_jobs o WHERE o.job_id = later.job_id AND NOT o.is_dry_run
          )
    )
    OR i.crawl IS NOT NULL AND (
        i.state IN ('failed', 'cancelled')
        OR i.state = 'done' AND EXISTS (
            SELECT FROM ingestion_items page
            WHERE page.job_id = i.job_id AND page.is_page AND page.state = 'failed'
              AND NOT EXISTS (
                  SELECT FROM ingestion_payloads p
                  WHERE (p.job_id, p.item_index) = (page.job_id, page.item_index)
              )
        )
    )
)

-- name: insert_document
INSERT INTO documents
    (collection_id, uri, source_type, title, mime_type, content_hash, input_hash, ingestion_hash,
     size_bytes, metadata, allowed_principals, container_uri, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, ''::bytea, $8, $9, $10, $11, 'queued')
ON CONFLICT (collection_id, uri) DO NOTHING

-- name: replaceable
SELECT d.uri, d.document_id FROM documents d JOIN ingestion_jobs j ON j.job_id = $3::uuid
JOIN unnest($2::text[], $4::text[]) AS m (uri, container_uri) ON m.uri = d.uri
WHERE d.collection_id = $1 AND {is_replaceable}

-- name: insert_job
INSERT INTO ingestion_jobs (
    job_id, collection_id, state, request_id, principals, is_dry_run, traceparent
)
VALUES ($1::uuid, $2, 'queued', nullif($3, ''), $4, $5, $6)
ON CONFLICT (collection_id, request_id) DO NOTHING RETURNING job_id::text
