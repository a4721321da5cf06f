-- Excerpts of long texts without reading the whole text: the sizes of parts, and where runs of segments begin, are stored
-- beside them. Older versions need not know it, and what they stored is measured as before.

ALTER TABLE document_texts ADD COLUMN character_count integer;
-- Where the first run of segments begins in the text, and each 16th behind it; null of revisions that earlier releases kept.
ALTER TABLE document_revisions ADD COLUMN starts integer[];

CREATE FUNCTION count_characters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.character_count := length(NEW.text);
    RETURN NEW;
END
$$;
CREATE TRIGGER count_characters BEFORE INSERT OR UPDATE OF text ON document_texts
    FOR EACH ROW EXECUTE FUNCTION count_characters();

-- As before; but of what is not wanted no text is read, and of a revision only the runs that may have what is.
CREATE OR REPLACE FUNCTION document_text(
    of_document uuid, of_revision text, start_offset integer, end_offset integer, OUT text text, OUT size integer
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH pieces AS (
        SELECT t.part::bigint AS place, t.part AS piece, true AS is_in_use, 0 AS base,
               coalesce(t.character_count, length(t.text)) AS characters
        FROM documents d JOIN document_texts t USING (document_id)
        WHERE d.document_id = of_document
            AND of_revision IN ('', coalesce(d.revision, document_revision(d)))
        UNION ALL
        SELECT row_number() OVER (ORDER BY runs.run, s.segment), s.segment, false, coalesce(r.starts[block.first], 0),
               length(s.text)
        FROM document_revisions r
        CROSS JOIN LATERAL (
            SELECT greatest(width_bucket(start_offset, r.starts), 1) AS first,
                   width_bucket(end_offset - 1, r.starts) AS last
        ) AS block
        CROSS JOIN LATERAL unnest(
            r.firsts[coalesce((block.first - 1) * 16 + 1, 1):coalesce(block.last * 16, cardinality(r.firsts))],
            r.counts[coalesce((block.first - 1) * 16 + 1, 1):coalesce(block.last * 16, cardinality(r.counts))]
        ) WITH ORDINALITY AS runs (first, count, run)
        JOIN revision_segments s ON s.document_id = r.document_id
            AND s.segment BETWEEN runs.first AND runs.first + runs.count - 1
        WHERE r.document_id = of_document AND r.revision = of_revision
    ), placed AS MATERIALIZED (
        SELECT place, piece, is_in_use, base + sum(characters) OVER (ORDER BY place)::int AS piece_end,
               base + (sum(characters) OVER (ORDER BY place) - characters)::int AS piece_start
        FROM pieces
    ), wanted AS (
        SELECT place, piece_start, piece_end, CASE
            WHEN is_in_use THEN (
                SELECT t.text FROM document_texts t WHERE t.document_id = of_document AND t.part = piece
            )
            ELSE (
                SELECT s.text FROM revision_segments s WHERE s.document_id = of_document AND s.segment = piece
            )
        END AS text
        FROM placed WHERE piece_start < end_offset AND piece_end > start_offset
    )
    SELECT (
               SELECT string_agg(
                   substr(wanted.text, greatest(start_offset - piece_start, 0) + 1,
                          least(piece_end, end_offset) - greatest(piece_start, start_offset)), '' ORDER BY place)
               FROM wanted
           ),
           coalesce(
               (SELECT max(piece_end) FROM placed WHERE is_in_use),
               (SELECT r.character_count FROM document_revisions r
                WHERE r.document_id = of_document AND r.revision = of_revision)
           )
$$;
