-- Taking back what the job $1 did to documents of the collection $2, for the principals $3.

-- name: changed
-- Of several items of a document the first knows what it was, the last what the job made of it.
SELECT i.document_id,
       (array_agg(i.outcome ORDER BY i.queue_id))[1] = 'created' AS is_created,
       (array_agg(i.replaced_revision ORDER BY i.queue_id))[1] AS before,
       (array_agg(i.revision ORDER BY i.queue_id DESC))[1] AS after
FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
WHERE i.job_id = $1::uuid AND j.kind = 'ingest' AND NOT j.is_dry_run
    AND i.state = 'done' AND i.outcome IN ('created', 'updated') AND i.document_id IS NOT NULL
GROUP BY i.document_id

-- name: plan
-- $4: whether what was changed since is taken back as well. Jobs of earlier releases do not know what they stored.
SELECT d.document_id, d.uri, coalesce(changed.before, '') AS before, {current} AS current,
       CASE
           WHEN {current} = changed.before THEN 'none'
           WHEN changed.after IS NULL THEN 'not_kept'
           WHEN {current} <> changed.after AND NOT $4 THEN 'changed_since'
           WHEN changed.is_created AND {is_held} THEN 'held'
           WHEN changed.is_created THEN 'delete'
           WHEN EXISTS (
               SELECT FROM document_revisions r
               WHERE (r.document_id, r.revision) = (d.document_id, changed.before) AND {was_readable}
           ) THEN 'restore'
           ELSE 'not_kept'
       END AS action
FROM ({changed}) changed JOIN documents d USING (document_id)
WHERE d.collection_id = $2 AND d.ingestion_hash <> ''::bytea AND {is_readable}
ORDER BY d.uri

-- name: insert_items
-- The documents $2, from revisions $4 to $3, as items of the job $1. An empty content stands for what is read from the
-- revision.
WITH numbered AS (
    SELECT row_number() OVER (ORDER BY d.uri) - 1 AS item_index, d.collection_id, d.uri, d.document_id, d.container_uri,
           n.before, n.current, r.source_type, r.title, r.mime_type, r.metadata, r.allowed_principals, r.content_hash
    FROM unnest($2::uuid[], $3::text[], $4::text[]) AS n (document_id, before, current)
    JOIN documents d USING (document_id)
    JOIN document_revisions r ON (r.document_id, r.revision) = (d.document_id, n.before)
), inserted AS (
    INSERT INTO ingestion_items (job_id, item_index, collection_id, uri, document_id, state, input)
    SELECT $1::uuid, item_index, collection_id, uri, document_id, 'queued', jsonb_build_object(
        'revision', before, 'expectedRevision', current, 'kind', 'data', 'uri', uri, 'title', title,
        'mimeType', mime_type, 'sourceType', source_type, 'metadata', metadata,
        'allowedPrincipals', to_jsonb(allowed_principals), 'contentHash', encode(content_hash, 'hex'),
        'containerUri', container_uri)
    FROM numbered
    RETURNING job_id, item_index
)
INSERT INTO ingestion_payloads (job_id, item_index, part, data)
SELECT job_id, item_index, 0, ''::bytea FROM inserted
