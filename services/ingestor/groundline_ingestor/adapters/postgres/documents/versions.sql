-- name: earlier
-- Locked as the upsert does, so that answers that cite them can be stored meanwhile.
SELECT document_id, uri, {current} AS revision FROM documents d
WHERE collection_id = $1 AND uri = ANY($2::text[]) AND ingestion_hash <> ''::bytea
ORDER BY uri FOR NO KEY UPDATE

-- name: upsert
-- A document that was only queued so far, without an ingestion_hash, is new too.
WITH earlier AS (SELECT ingestion_hash FROM documents WHERE collection_id = $1 AND uri = $2)
INSERT INTO documents
    (collection_id, uri, source_type, title, mime_type, content_hash, input_hash, ingestion_hash,
     size_bytes, metadata, allowed_principals, text_hash, container_uri, state, chunk_count, token_count,
     provenance)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'done', $14, $15, $17)
ON CONFLICT (collection_id, uri) DO UPDATE SET
    source_type = excluded.source_type, title = excluded.title,
    mime_type = excluded.mime_type, content_hash = excluded.content_hash,
    input_hash = excluded.input_hash, ingestion_hash = excluded.ingestion_hash,
    size_bytes = excluded.size_bytes, metadata = excluded.metadata,
    allowed_principals = excluded.allowed_principals, text_hash = excluded.text_hash,
    container_uri = excluded.container_uri,
    state = excluded.state, chunk_count = excluded.chunk_count, token_count = excluded.token_count, failure = NULL,
    provenance = excluded.provenance,
    version = documents.version + 1, update_time = clock_timestamp(), has_original = false
WHERE {is_replaceable}
RETURNING uri, document_id, update_time, xmax = 0 AS is_inserted,
          xmax = 0 OR EXISTS (SELECT FROM earlier WHERE ingestion_hash = ''::bytea) AS is_new

-- name: keep_originals
WITH kept AS (
    INSERT INTO document_originals (document_id, part, data)
    SELECT k.document_id, p.part, p.data
    FROM unnest($1::uuid[], $2::uuid[], $3::int[]) AS k (document_id, job_id, item_index)
    JOIN ingestion_payloads p USING (job_id, item_index)
    WHERE p.part BETWEEN $4 AND $5
    RETURNING document_id, part
), marked AS (
    UPDATE documents SET has_original = true
    WHERE NOT has_original AND document_id IN (SELECT document_id FROM kept)
)
SELECT max(part) FROM kept

-- name: restore_pages
INSERT INTO document_pages (document_id, start_offset, lines)
SELECT d.document_id, p.start_offset, p.lines
FROM documents d JOIN revision_pages p USING (document_id, revision) WHERE d.document_id = ANY($1::uuid[])

-- name: restore_original
WITH kept AS (
    INSERT INTO document_originals (document_id, part, data)
    SELECT d.document_id, o.part, o.data
    FROM documents d JOIN revision_originals o USING (document_id, content_hash)
    WHERE d.document_id = ANY($1::uuid[]) AND o.part BETWEEN $2 AND $3
    RETURNING document_id, part
), marked AS (
    UPDATE documents SET has_original = true
    WHERE NOT has_original AND document_id IN (SELECT document_id FROM kept)
)
SELECT max(part) FROM kept

-- name: hold
SELECT document_id, {current} AS revision, state, ingestion_hash, metadata, allowed_principals, container_uri, has_original,
       {is_refreshable} AS is_replaceable
FROM documents d WHERE collection_id = $1 AND uri = $2 FOR UPDATE

-- name: update
UPDATE documents SET metadata = $2, allowed_principals = $3, container_uri = $4, state = 'done',
                     failure = NULL, version = version + 1, update_time = clock_timestamp(),
                     provenance = coalesce(provenance, '{}') || $5::jsonb
WHERE document_id = $1::uuid
RETURNING update_time,
          (SELECT earlier.metadata ? 'page' FROM documents AS earlier
           WHERE earlier.document_id = documents.document_id) AS page_was_given
