-- name: original
SELECT o.data FROM document_originals o JOIN documents d USING (document_id)
WHERE d.collection_id = $1 AND document_id = $2::uuid AND o.part = $3 AND d.content_hash = $4 AND {may_read}
UNION ALL
SELECT o.data FROM revision_originals o JOIN documents d USING (document_id)
WHERE d.collection_id = $1 AND document_id = $2::uuid AND o.part = $3 AND o.content_hash = $4 AND {may_read}
  AND EXISTS (
      SELECT FROM document_revisions r
      WHERE (r.document_id, r.content_hash) = (o.document_id, o.content_hash) AND {might_read}
  )
LIMIT 1

-- name: states
SELECT state, count(*) FROM documents WHERE collection_id = $1 AND {is_readable} GROUP BY 1

-- name: sizes
SELECT coalesce(sum(size_bytes), 0)::bigint AS bytes, coalesce(sum(token_count), 0) AS tokens
FROM documents WHERE collection_id = $1 AND chunk_count > 0 AND {is_readable}
