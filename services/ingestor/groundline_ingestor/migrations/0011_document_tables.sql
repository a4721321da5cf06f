-- Tables of documents: their columns, and rows whose numbers can be counted with. Older versions neither read nor write
-- them; what they store has no tables until it is ingested again, since tables belong to what was handed in.

CREATE TABLE document_tables (
    table_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    -- What was handed in: of the documents' row those tables are in use whose hash it has, and a revision in use again has
    -- its own again.
    content_hash bytea NOT NULL,
    table_index integer NOT NULL,
    name text NOT NULL,
    sheet text NOT NULL,
    -- First column on its sheet, from 0; -1 where cells have no references.
    left_column integer NOT NULL,
    -- From 1; 0 without pages.
    page integer NOT NULL,
    -- In order, as objects: name, type, unit.
    columns jsonb NOT NULL,
    row_count integer NOT NULL,
    is_cut boolean NOT NULL,
    UNIQUE (document_id, content_hash, table_index)
);

CREATE TABLE document_table_rows (
    table_id bigint NOT NULL REFERENCES document_tables ON DELETE CASCADE,
    -- Its place, from 0.
    row_index integer NOT NULL,
    -- Its number on its sheet or in its table, from 1, and where it begins in the text.
    row_number integer NOT NULL,
    start_offset integer NOT NULL,
    -- Its cells as they are shown, and their numbers in the columns' units; of dates seconds since 1970, of yes and no 1 and
    -- 0. Both begin at 1.
    texts text[] NOT NULL,
    numbers numeric[] NOT NULL,
    -- Whether it is a total of others.
    is_total boolean NOT NULL,
    PRIMARY KEY (table_id, row_index)
);

-- Cells that a question may name: texts, days and whole numbers, each of a column once.
CREATE TABLE document_table_keys (
    table_id bigint NOT NULL REFERENCES document_tables ON DELETE CASCADE,
    -- The cell as texts are compared: without regard to case and white space.
    key text NOT NULL,
    -- Of the column, from 0.
    column_index integer NOT NULL,
    -- The cell as it is shown.
    text text NOT NULL,
    PRIMARY KEY (table_id, key, column_index, text)
);
