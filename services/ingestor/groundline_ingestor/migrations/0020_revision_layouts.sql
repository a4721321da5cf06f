-- Texts of replaced revisions in fewer bytes: what they share is stored once, in rows of many lines, and a revision is described
-- by how it differs from another. What earlier releases stored (firsts, counts, revision_segments) stays and is read as before;
-- while they still run they write so. They cannot put back what is stored in this form: firsts and counts are such that their
-- statement fails, and with it the item, in place of an empty text.

-- Its layout, and the one that is used by it; both null of revisions that earlier releases kept.
ALTER TABLE document_revisions ADD COLUMN layout integer, ADD COLUMN base_layout integer;

-- Text of a document's replaced revisions, each stretch once. A place is counted in characters over all of a document's rows;
-- what no revision has any more leaves a gap.
CREATE TABLE revision_texts (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    place bigint NOT NULL,
    character_count integer NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (document_id, place)
);

-- What a text consists of, in its order and some hundred stretches a row: from where on, and how many characters. A source from 0
-- on is a place in revision_texts, one below 0 an offset in the base layout, as -1 - offset. A base layout has places only, so
-- that no text is further than two steps away.
CREATE TABLE revision_layouts (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    layout integer NOT NULL,
    -- Of the first stretch, in the text.
    start_offset integer NOT NULL,
    sources bigint[] NOT NULL,
    lengths integer[] NOT NULL,
    PRIMARY KEY (document_id, layout, start_offset)
);

-- Stretches of a layout from one offset to another.
CREATE FUNCTION layout_stretches(of_document uuid, of_layout integer, from_offset integer, to_offset integer)
RETURNS TABLE (start_offset integer, source bigint, length integer) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT greatest(begins, from_offset),
           CASE WHEN source < 0 THEN source - greatest(from_offset - begins, 0)
                ELSE source + greatest(from_offset - begins, 0) END,
           least(ends, to_offset) - greatest(begins, from_offset)
    FROM (
        SELECT run.source, (l.start_offset + sum(run.length) OVER before - run.length)::integer AS begins,
               (l.start_offset + sum(run.length) OVER before)::integer AS ends
        FROM revision_layouts l
        CROSS JOIN unnest(l.sources, l.lengths) WITH ORDINALITY AS run (source, length, number)
        WHERE l.document_id = of_document AND l.layout = of_layout AND l.start_offset < to_offset
            AND l.start_offset >= coalesce((
                SELECT max(b.start_offset) FROM revision_layouts b
                WHERE b.document_id = of_document AND b.layout = of_layout AND b.start_offset <= from_offset
            ), 0)
        WINDOW before AS (PARTITION BY l.start_offset ORDER BY run.number)
    ) placed
    WHERE begins < to_offset AND ends > from_offset
$$;

-- Rows of revision_texts that have characters from one place to another.
CREATE FUNCTION texts_between(of_document uuid, from_place bigint, to_place bigint)
RETURNS SETOF revision_texts LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT t.* FROM revision_texts t
    WHERE t.document_id = of_document AND t.place < to_place AND t.place + t.character_count > from_place
        AND t.place >= coalesce((
            SELECT max(b.place) FROM revision_texts b WHERE b.document_id = of_document AND b.place <= from_place
        ), from_place)
$$;

-- Pieces of a replaced revision's text from one offset to another, with their offsets; none of one that an earlier release kept.
-- Strict, so that it is no part of the plan of those who read what is in use.
CREATE FUNCTION revision_pieces(of_document uuid, of_revision text, from_offset integer, to_offset integer)
RETURNS TABLE (start_offset integer, text text) LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    WITH own AS MATERIALIZED (
        SELECT r.base_layout, s.start_offset, s.source, s.length
        FROM document_revisions r
        CROSS JOIN LATERAL layout_stretches(r.document_id, r.layout, from_offset, to_offset) s
        WHERE r.document_id = of_document AND r.revision = of_revision
    ), placed AS (
        SELECT own.start_offset, own.source AS place, own.length FROM own WHERE own.source >= 0
        UNION ALL
        SELECT (own.start_offset + b.start_offset + 1 + own.source)::integer, b.source, b.length
        FROM own CROSS JOIN LATERAL layout_stretches(
            of_document, own.base_layout, (-1 - own.source)::integer, (-1 - own.source + own.length)::integer
        ) b
        WHERE own.source < 0
    )
    SELECT (p.start_offset + greatest(t.place - p.place, 0))::integer,
           substr(t.text, greatest(p.place - t.place, 0)::integer + 1,
                  (least(t.place + t.character_count, p.place + p.length) - greatest(t.place, p.place))::integer)
    FROM placed p CROSS JOIN LATERAL texts_between(of_document, p.place, p.place + p.length) t
$$;

-- As before, and of revisions in this form.
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
        WHERE r.document_id = of_document AND r.revision = of_revision AND r.layout IS NULL
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
    SELECT coalesce(
               (
                   SELECT string_agg(
                       substr(wanted.text, greatest(start_offset - piece_start, 0) + 1,
                              least(piece_end, end_offset) - greatest(piece_start, start_offset)), '' ORDER BY place)
                   FROM wanted
               ),
               (
                   SELECT string_agg(p.text, '' ORDER BY p.start_offset)
                   FROM revision_pieces(of_document, of_revision, start_offset, end_offset) p
               )
           ),
           coalesce(
               (SELECT max(piece_end) FROM placed WHERE is_in_use),
               (SELECT r.character_count FROM document_revisions r
                WHERE r.document_id = of_document AND r.revision = of_revision)
           )
$$;
