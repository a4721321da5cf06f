-- Imports, except where their own tables are named.

-- name: running_reindex
SELECT true FROM ingestion_jobs WHERE collection_id = $1 AND kind = 'reindex' AND end_time IS NULL

-- name: kind
SELECT p.embedding_model, p.dimensions, p.language, p.lexical_backend,
    {is_quantized} AS is_quantized
FROM collections c JOIN chunk_partitions p USING (partition_id) WHERE c.collection_id = $1

-- name: totals
SELECT coalesce(sum(document_count), 0)::bigint AS document_count,
       coalesce(sum(added_count), 0)::bigint AS added_count,
       coalesce(sum(byte_count), 0)::bigint AS byte_count,
       coalesce(sum(chunk_count), 0)::bigint AS chunk_count,
       coalesce(sum(unchanged_count), 0)::bigint AS unchanged_count
FROM import_batches WHERE collection_id = $1

-- name: failures
SELECT f.* FROM import_batches,
    jsonb_to_recordset(failures) AS f (file text, line integer, field text, description text)
WHERE collection_id = $1 ORDER BY batch, line

-- name: begin
INSERT INTO imports (collection_id, partition_id, files)
VALUES ($1, nextval(pg_get_serial_sequence('chunk_partitions', 'partition_id')), $2)
ON CONFLICT DO NOTHING RETURNING partition_id

-- name: orphaned
SELECT collection_id, partition_id FROM imports i
WHERE NOT EXISTS (SELECT FROM collections c WHERE c.collection_id = i.collection_id)
  AND pg_try_advisory_xact_lock($1, partition_id::int)

-- name: has_keyword_index
SELECT true FROM pg_index x JOIN pg_class k ON k.oid = x.indexrelid
JOIN pg_am a ON a.oid = k.relam WHERE x.indrelid = $1::text::regclass AND a.amname = 'bm25'

-- name: attach
INSERT INTO chunk_partitions (partition_id, collection_id, embedding_model, dimensions,
                              language, lexical_backend, lexical_built_after, is_quantized)
OVERRIDING SYSTEM VALUE
SELECT i.partition_id, i.collection_id, p.embedding_model, p.dimensions, p.language,
       p.lexical_backend, i.lexical_built_after, {is_quantized}
FROM imports i JOIN collections c USING (collection_id)
JOIN chunk_partitions p ON p.partition_id = c.partition_id
WHERE i.collection_id = $1 ON CONFLICT DO NOTHING RETURNING true

-- name: known
SELECT uri, document_id, version, create_time, ingestion_hash, metadata, allowed_principals,
       chunk_count, size_bytes
FROM documents WHERE collection_id = $1 AND uri = ANY($2::text[])

-- name: columns
SELECT quote_ident(attname) AS name FROM pg_attribute
WHERE attrelid = 'documents'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
  -- An import that an earlier release began lacks later columns.
  AND attname IN (SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass)

-- name: source
SELECT c.partition_id FROM imports i JOIN collections c USING (collection_id)
WHERE collection_id = $1 AND i.copied_from IS NULL

-- name: missing
SELECT (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass('chunks_p' || $1::bigint))
    - coalesce((SELECT filled_count FROM search_index_partitions WHERE partition_id = $1), 0)
    + (SELECT count(*) FROM search_index_changes WHERE partition_id = $1)

-- name: hold
-- The partition in use, and the one that the others' chunks were copied from.
SELECT c.partition_id, i.copied_from FROM collections c JOIN imports i USING (collection_id)
WHERE collection_id = $1 AND i.copied_from IS NOT NULL FOR UPDATE OF c

-- name: use
UPDATE collections SET partition_id = $2, candidate_partition_id = nullif(candidate_partition_id, $2),
                       update_time = clock_timestamp()
WHERE collection_id = $1

-- name: insert_job
-- No caller's: whoever may read a document sees its item.
INSERT INTO ingestion_jobs (job_id, collection_id, state, create_time)
SELECT $1::uuid, collection_id, 'done', create_time FROM imports WHERE collection_id = $2
