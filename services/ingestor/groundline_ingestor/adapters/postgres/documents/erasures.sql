-- What is deleted for good, in numbers, ids and hashes.

-- name: record
-- Of the collection $1 the documents $4, or all if that is null. Documents that were only queued had nothing stored.
WITH erased AS MATERIALIZED (
    SELECT document_id, chunk_count, content_hash FROM documents
    WHERE collection_id = $1 AND ingestion_hash <> ''::bytea AND ($4::uuid[] IS NULL OR document_id = ANY($4))
), replaced AS MATERIALIZED (
    SELECT r.content_hash FROM document_revisions r JOIN erased USING (document_id)
)
INSERT INTO erasures
    (collection_id, owner, is_collection, document_count, revision_count, chunk_count, answer_count, content_hashes,
     document_ids)
SELECT $1, $2, $3, (SELECT count(*) FROM erased), (SELECT count(*) FROM replaced),
       (SELECT coalesce(sum(chunk_count), 0) FROM erased),
       (SELECT count(DISTINCT (thread_id, message_index)) FROM cited_revisions JOIN erased USING (document_id)),
       ARRAY(
           SELECT content_hash FROM (
               SELECT content_hash FROM erased UNION SELECT content_hash FROM replaced
           ) hashes ORDER BY content_hash LIMIT 1000
       ),
       ARRAY(SELECT document_id FROM erased ORDER BY document_id)
WHERE $3 OR EXISTS (SELECT FROM erased)

-- name: list
SELECT erasure_id, collection_id, is_collection, document_count, revision_count, chunk_count, answer_count, create_time
FROM erasures
WHERE CASE WHEN $1 = '' THEN owner = $2 ELSE collection_id = $1 END
  AND ($3::timestamptz IS NULL OR (create_time, erasure_id) < ($3, $4::uuid))
ORDER BY create_time DESC, erasure_id DESC LIMIT $5

-- name: find
SELECT erasure_id, collection_id, owner, is_collection, document_count, revision_count, chunk_count, answer_count,
       create_time, content_hashes
FROM erasures WHERE erasure_id = $1::uuid
