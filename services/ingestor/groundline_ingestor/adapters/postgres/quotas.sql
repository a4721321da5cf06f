-- What callers and collections use of their quotas.

-- name: used_in
SELECT count(*) AS documents,
       coalesce(sum(size_bytes), 0)::bigint + (
           SELECT coalesce(sum(size_bytes), 0)::bigint FROM (
               SELECT DISTINCT r.document_id, r.content_hash, r.size_bytes
               FROM document_revisions r JOIN documents d USING (document_id)
               WHERE d.collection_id = $1 AND r.content_hash <> d.content_hash
           ) kept
       ) AS bytes,
       (SELECT count(*) FROM sources WHERE collection_id = $1) AS sources
FROM documents WHERE collection_id = $1 AND uri <> ALL($2::text[])
