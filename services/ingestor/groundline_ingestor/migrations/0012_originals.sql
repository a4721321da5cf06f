-- Documents as they were handed in, where their collection keeps them, so that a citation opens the page it comes from.

ALTER TABLE documents ADD COLUMN has_original boolean NOT NULL DEFAULT false;

-- Parts as in ingestion_payloads.
CREATE TABLE document_originals (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    part integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (document_id, part)
);
ALTER TABLE document_originals ALTER COLUMN data SET STORAGE EXTERNAL;
