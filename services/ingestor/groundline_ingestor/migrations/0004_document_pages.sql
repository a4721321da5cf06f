-- Where the lines of documents are on their pages, so that a citation tells the boxes of its text. A row for each page that
-- has lines, of files that tell it; it is found by where the page begins in the extracted text.
CREATE TABLE document_pages (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    -- In the extracted text, in code points, that of the page's first line.
    start_offset integer NOT NULL,
    -- PageLines of the contract.
    lines bytea NOT NULL,
    PRIMARY KEY (document_id, start_offset)
);
