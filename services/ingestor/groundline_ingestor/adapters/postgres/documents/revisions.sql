-- Revisions of the document $2 in the collection $1, for the principals $3.

-- name: revisions
SELECT {current} AS revision, d.source_type, d.title, d.mime_type, d.content_hash,
       d.size_bytes, d.metadata, d.allowed_principals, d.update_time AS store_time, NULL::timestamptz AS replace_time,
       d.has_original, d.provenance
FROM documents d
WHERE d.collection_id = $1 AND d.document_id = $2::uuid AND d.ingestion_hash <> ''::bytea AND {is_readable}
UNION ALL
SELECT r.revision, r.source_type, r.title, r.mime_type, r.content_hash,
       r.size_bytes, r.metadata, r.allowed_principals, r.store_time, r.replace_time,
       EXISTS (
           SELECT FROM revision_originals o
           WHERE (o.document_id, o.content_hash, o.part) = (r.document_id, r.content_hash, 0)
       ), r.provenance
FROM document_revisions r JOIN documents d USING (document_id)
WHERE d.collection_id = $1 AND d.document_id = $2::uuid AND {is_readable} AND {was_readable}

-- name: list
SELECT * FROM ({revisions}) revisions
WHERE $5 = '' OR replace_time IS NOT NULL AND ($4::timestamptz IS NULL OR (replace_time, revision) < ($4, $5))
ORDER BY replace_time DESC NULLS FIRST, revision DESC LIMIT $6

-- name: find
SELECT * FROM ({revisions}) revisions WHERE revision = $4 OR $4 = '' AND replace_time IS NULL

-- name: stored
-- One that was replaced, with what a new version is made of.
SELECT r.*, d.collection_id, d.uri, d.container_uri
FROM document_revisions r JOIN documents d USING (document_id)
WHERE d.collection_id = $1 AND d.document_id = $2::uuid AND {is_readable} AND {was_readable} AND r.revision = $4

-- name: segments
-- With the headings of all before them; of revisions as this release keeps them, and as earlier ones did.
SELECT text, headings FROM (
    SELECT p.start_offset::bigint AS place, p.text, CASE WHEN p.start_offset = 0 THEN r.headings END AS headings
    FROM document_revisions r
    CROSS JOIN LATERAL revision_pieces(r.document_id, r.revision, 0, r.character_count) p
    WHERE r.document_id = $1::uuid AND r.revision = $2
    UNION ALL
    SELECT row_number() OVER (ORDER BY runs.run, s.segment), s.text,
           CASE WHEN runs.run = 1 AND s.segment = runs.first THEN r.headings END
    FROM document_revisions r
    CROSS JOIN unnest(r.firsts, r.counts) WITH ORDINALITY AS runs (first, count, run)
    JOIN revision_segments s ON s.document_id = r.document_id
        AND s.segment BETWEEN runs.first AND runs.first + runs.count - 1
    WHERE r.document_id = $1::uuid AND r.revision = $2 AND r.layout IS NULL
) pieces ORDER BY place

-- name: text
SELECT t.text, t.size FROM ({find}) found, document_text($2::uuid, found.revision, $5, $6) t
