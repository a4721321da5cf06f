-- Revisions of documents: what a citation names, and what is kept of a document when it is replaced. The revision in use
-- is the row of documents itself, so what is stored already has one. Older versions neither read nor write them.

-- SHA-256 of the extracted text; null for documents of earlier releases, whose revision is named without it.
ALTER TABLE documents ADD COLUMN text_hash bytea;
-- document_revision() of the row; null in rows that have not changed since this migration.
ALTER TABLE documents ADD COLUMN revision text;

-- Documents of unfinished imports wait in tables that need the same columns.
DO $$
DECLARE
    waiting text;
BEGIN
    FOR waiting IN
        SELECT 'imported_p' || partition_id || '_documents' FROM imports
        WHERE to_regclass('imported_p' || partition_id || '_documents') IS NOT NULL
    LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN text_hash bytea, ADD COLUMN revision text', waiting);
    END LOOP;
END
$$;

-- Names a revision by its content: what was extracted and handed in, title, metadata, principals.
CREATE FUNCTION document_revision(document documents) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN substr(encode(sha256(convert_to(jsonb_build_array(
    encode(coalesce(document.text_hash, ''), 'hex'),
    encode(coalesce(document.input_hash, document.content_hash), 'hex'),
    document.title, document.metadata, document.allowed_principals
)::text, 'UTF8')), 'hex'), 1, 32);

-- By a trigger, so that the name is right whichever version writes.
CREATE FUNCTION name_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := document_revision(NEW);
    RETURN NEW;
END
$$;
CREATE TRIGGER name_revision BEFORE INSERT OR UPDATE OF
    text_hash, input_hash, content_hash, title, metadata, allowed_principals
    ON documents FOR EACH ROW EXECUTE FUNCTION name_revision();

-- Revisions that were replaced, without the one in use.
CREATE TABLE document_revisions (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    revision text NOT NULL,
    -- As in documents.
    source_type text NOT NULL,
    title text NOT NULL,
    mime_type text NOT NULL,
    content_hash bytea NOT NULL,
    input_hash bytea,
    size_bytes integer NOT NULL,
    metadata jsonb NOT NULL,
    allowed_principals text[] NOT NULL,
    -- Those of document_texts, in one list.
    headings jsonb NOT NULL,
    -- The text's segments, in its order, as runs of numbers: the first of each run, and how many it has.
    firsts integer[] NOT NULL,
    counts integer[] NOT NULL,
    character_count integer NOT NULL,
    -- When it began and ceased to be the one in use.
    store_time timestamptz NOT NULL,
    replace_time timestamptz NOT NULL,
    PRIMARY KEY (document_id, revision)
);

-- Pieces of the texts of a document's replaced revisions, each stored once.
CREATE TABLE revision_segments (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    segment integer NOT NULL,
    -- Hash of the text.
    digest bytea NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (document_id, segment)
);

-- Where the lines of a replaced revision are on its pages, as document_pages has them of the one in use.
CREATE TABLE revision_pages (
    document_id uuid NOT NULL,
    revision text NOT NULL,
    start_offset integer NOT NULL,
    lines bytea NOT NULL,
    PRIMARY KEY (document_id, revision, start_offset),
    FOREIGN KEY (document_id, revision) REFERENCES document_revisions ON DELETE CASCADE
);

-- What was handed in, of replaced revisions whose collection kept originals; each content once. Parts as in
-- document_originals.
CREATE TABLE revision_originals (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    content_hash bytea NOT NULL,
    part integer NOT NULL,
    data bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (document_id, content_hash, part)
);

-- Revisions that stay as long as the answers that cite them. The coordinator writes it and refers to its messages.
CREATE TABLE cited_revisions (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    revision text NOT NULL,
    thread_id uuid NOT NULL,
    message_index integer NOT NULL,
    PRIMARY KEY (document_id, revision, thread_id, message_index)
);
CREATE INDEX cited_revisions_message ON cited_revisions (thread_id, message_index);

-- Characters of a document's text in a revision, of the one in use if that is ''. Null text and size: there is no such
-- revision. Offsets count code points.
CREATE FUNCTION document_text(
    of_document uuid, of_revision text, start_offset integer, end_offset integer, OUT text text, OUT size integer
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH pieces AS MATERIALIZED (
        SELECT t.part::bigint AS place, t.text
        FROM documents d JOIN document_texts t USING (document_id)
        WHERE d.document_id = of_document
            AND of_revision IN ('', coalesce(d.revision, document_revision(d)))
        UNION ALL
        SELECT row_number() OVER (ORDER BY runs.run, s.segment), s.text
        FROM document_revisions r
        CROSS JOIN unnest(r.firsts, r.counts) WITH ORDINALITY AS runs (first, count, run)
        JOIN revision_segments s ON s.document_id = r.document_id
            AND s.segment BETWEEN runs.first AND runs.first + runs.count - 1
        WHERE r.document_id = of_document AND r.revision = of_revision
    ), placed AS (
        SELECT place, pieces.text, sum(length(pieces.text)) OVER (ORDER BY place)::int AS piece_end,
               (sum(length(pieces.text)) OVER (ORDER BY place) - length(pieces.text))::int AS piece_start
        FROM pieces
    )
    SELECT string_agg(
               substr(placed.text, greatest(start_offset - piece_start, 0) + 1,
                      least(piece_end, end_offset) - greatest(piece_start, start_offset)), '' ORDER BY place
           ) FILTER (WHERE piece_start < end_offset AND piece_end > start_offset),
           max(piece_end)
    FROM placed
$$;
