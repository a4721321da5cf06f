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

-- name: keep_again
-- Of one that is kept already only the time.
UPDATE document_revisions r SET replace_time = clock_timestamp() FROM documents d
WHERE d.document_id = $1 AND (r.document_id, r.revision) = (d.document_id, {current})
RETURNING true

-- name: count_parts
SELECT count(*) FROM document_texts WHERE document_id = $1

-- name: texts
SELECT place, text FROM revision_texts WHERE document_id = $1 ORDER BY place

-- name: layouts
-- The number of the next layout, and the newest one that is a base, with how many stretches differ from it so far.
WITH newest AS (
    SELECT max(coalesce(base_layout, layout)) AS base FROM document_revisions WHERE document_id = $1
)
SELECT base, (
           SELECT coalesce(sum(cardinality(l.sources)), 0)
           FROM document_revisions r JOIN revision_layouts l USING (document_id, layout)
           WHERE r.document_id = $1 AND r.base_layout = base
       ) AS differences, 1 + coalesce(greatest(
           base, (SELECT max(layout) FROM document_revisions WHERE document_id = $1),
           (SELECT max(layout) FROM revision_layouts WHERE document_id = $1)
       ), -1) AS following
FROM newest

-- name: stretches
SELECT sources, lengths FROM revision_layouts WHERE document_id = $1 AND layout = $2 ORDER BY start_offset

-- name: keep
-- By these firsts and counts the statement with which earlier releases put a revision back fails: see migration 20.
INSERT INTO document_revisions
    (document_id, revision, source_type, title, mime_type, content_hash, input_hash, size_bytes, metadata,
     allowed_principals, headings, firsts, counts, layout, base_layout, character_count, store_time, replace_time,
     provenance)
SELECT document_id, {current}, source_type, title, mime_type, content_hash,
       input_hash, size_bytes, metadata, allowed_principals,
       (SELECT coalesce(jsonb_agg(heading ORDER BY part, place), '[]')
        FROM document_texts t, jsonb_array_elements(t.headings) WITH ORDINALITY AS listed (heading, place)
        WHERE t.document_id = d.document_id),
       ARRAY[-2147483648], ARRAY[0], $2, $3, $4, update_time, clock_timestamp(), provenance
FROM documents d WHERE document_id = $1

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

-- name: drop_layouts
DELETE FROM revision_layouts l WHERE document_id = ANY($1::uuid[]) AND NOT EXISTS (
    SELECT FROM document_revisions r WHERE r.document_id = l.document_id AND l.layout IN (r.layout, r.base_layout)
)

-- name: drop_texts
-- What no revision has any more; of rows of which some is left, that is stored by itself.
WITH own AS (
    SELECT r.document_id, r.base_layout, run.source, run.length
    FROM document_revisions r JOIN revision_layouts l USING (document_id, layout)
    CROSS JOIN unnest(l.sources, l.lengths) AS run (source, length)
    WHERE r.document_id = ANY($1::uuid[])
), based AS (
    SELECT document_id, base_layout, unnest(range_agg(int8range(-1 - source, -1 - source + length))) AS part
    FROM own WHERE source < 0 GROUP BY document_id, base_layout
), used AS (
    SELECT document_id, unnest(range_agg(int8range(source, source + length))) AS part
    FROM (
        SELECT document_id, source, length FROM own WHERE source >= 0
        UNION ALL
        SELECT b.document_id, s.source, s.length FROM based b
        CROSS JOIN LATERAL layout_stretches(
            b.document_id, b.base_layout, lower(b.part)::integer, upper(b.part)::integer
        ) s
    ) stretches GROUP BY document_id
), left_over AS (
    SELECT u.document_id, t.place, greatest(t.place, lower(u.part)) AS first,
           least(t.place + t.character_count, upper(u.part)) AS last
    FROM used u CROSS JOIN LATERAL texts_between(u.document_id, lower(u.part), upper(u.part)) t
), dropped AS (
    DELETE FROM revision_texts t USING (
        SELECT t.document_id, t.place FROM revision_texts t LEFT JOIN left_over USING (document_id, place)
        WHERE t.document_id = ANY($1::uuid[])
        GROUP BY t.document_id, t.place HAVING coalesce(sum(last - first), 0) < min(t.character_count)
    ) partial
    WHERE (t.document_id, t.place) = (partial.document_id, partial.place)
    RETURNING t.document_id, t.place, t.text
)
INSERT INTO revision_texts (document_id, place, character_count, text)
SELECT document_id, first, last - first, substr(text, (first - place)::integer + 1, (last - first)::integer)
FROM dropped JOIN left_over USING (document_id, place)
