-- name: history
-- What a collection keeps, beside what answers cite.
SELECT collection_id,
       coalesce((settings -> 'history' ->> 'everything')::boolean, false) AS everything,
       coalesce((settings -> 'history' ->> 'revisions')::integer, 0) AS revisions,
       coalesce((settings -> 'history' ->> 'days')::integer, 0) AS days
FROM collections

-- name: is_cited
EXISTS (SELECT FROM cited_revisions c WHERE c.document_id = r.document_id AND c.revision = r.revision)

-- name: wanted
-- Of documents that were only queued so far nothing is kept.
SELECT r.document_id
FROM (
    SELECT document_id, collection_id, {current} AS revision
    FROM documents d WHERE document_id = ANY($1::uuid[]) AND ingestion_hash <> ''::bytea
) r JOIN ({history}) h USING (collection_id)
WHERE h.everything OR h.revisions > 0 OR h.days > 0 OR {is_cited} OR {is_held}

-- name: keep
INSERT INTO document_revisions
    (document_id, revision, source_type, title, mime_type, content_hash, input_hash, size_bytes, metadata,
     allowed_principals, headings, firsts, counts, starts, character_count, store_time, replace_time, provenance)
SELECT document_id, {current}, source_type, title, mime_type, content_hash,
       input_hash, size_bytes, metadata, allowed_principals,
       (SELECT coalesce(jsonb_agg(heading ORDER BY part, place), '[]')
        FROM document_texts t, jsonb_array_elements(t.headings) WITH ORDINALITY AS listed (heading, place)
        WHERE t.document_id = d.document_id),
       $2::integer[], $3::integer[], $4::integer[], $5, update_time, clock_timestamp(), provenance
FROM documents d WHERE document_id = $1
ON CONFLICT (document_id, revision) DO UPDATE SET replace_time = excluded.replace_time

-- name: keep_pages
INSERT INTO revision_pages (document_id, revision, start_offset, lines)
SELECT d.document_id, {current}, p.start_offset, p.lines
FROM documents d JOIN document_pages p USING (document_id) WHERE d.document_id = $1
ON CONFLICT DO NOTHING

-- name: keep_original
WITH kept AS (
    INSERT INTO revision_originals (document_id, content_hash, part, data)
    SELECT d.document_id, d.content_hash, o.part, o.data
    FROM documents d JOIN document_originals o USING (document_id)
    WHERE d.document_id = $1 AND o.part BETWEEN $2 AND $3
    ON CONFLICT DO NOTHING RETURNING part
)
SELECT max(part) FROM kept

-- name: stale
-- What is in use again, and what nothing keeps; places are counted from the newest.
SELECT r.document_id, r.revision
FROM (
    SELECT r.document_id, r.revision, r.replace_time, d.collection_id,
           r.revision = {current} AS is_current,
           count(*) FILTER (WHERE r.revision <> {current})
               OVER (PARTITION BY r.document_id ORDER BY r.replace_time DESC, r.revision) AS place
    FROM document_revisions r JOIN documents d USING (document_id)
) r JOIN ({history}) h USING (collection_id)
WHERE r.is_current
    OR NOT (h.everything OR r.place <= h.revisions OR r.replace_time > now() - make_interval(days => h.days)
            OR {is_cited} OR {is_held})

-- name: settle
DELETE FROM document_revisions r USING ({stale}) stale
WHERE stale.document_id = ANY($1::uuid[])
    AND (r.document_id, r.revision) = (stale.document_id, stale.revision)
RETURNING r.document_id

-- name: prunable
SELECT document_id FROM documents
WHERE document_id IN (SELECT document_id FROM ({stale}) stale)
ORDER BY document_id LIMIT $1 FOR UPDATE SKIP LOCKED

-- name: drop_originals
DELETE FROM revision_originals o WHERE document_id = ANY($1::uuid[]) AND NOT EXISTS (
    SELECT FROM document_revisions r WHERE (r.document_id, r.content_hash) = (o.document_id, o.content_hash)
)

-- name: drop_tables
DELETE FROM document_tables t USING documents d
WHERE d.document_id = ANY($1::uuid[]) AND t.document_id = d.document_id AND t.content_hash <> d.content_hash
    AND NOT EXISTS (
        SELECT FROM document_revisions r WHERE (r.document_id, r.content_hash) = (t.document_id, t.content_hash)
    )

-- name: drop_segments
DELETE FROM revision_segments s USING (
    SELECT changed.document_id, coalesce(
        range_agg(int4range(runs.first, runs.first + runs.count)) FILTER (WHERE runs.first IS NOT NULL), '{}'
    ) AS segments
    FROM unnest($1::uuid[]) AS changed (document_id)
    LEFT JOIN document_revisions r USING (document_id)
    LEFT JOIN unnest(r.firsts, r.counts) AS runs (first, count) ON true
    GROUP BY 1
) used
WHERE s.document_id = used.document_id AND NOT s.segment <@ used.segments
