-- What runs of web sources saw of pages, so that a page that has not changed is neither sent nor read again.
CREATE TABLE seen_pages (
    source_id uuid NOT NULL REFERENCES sources ON DELETE CASCADE,
    url text NOT NULL,
    -- Of its document; empty where it asks to be left out.
    uri text NOT NULL,
    -- A hash of its content; current while source_documents has the same.
    version text NOT NULL,
    etag text NOT NULL,
    last_modified text NOT NULL,
    -- Where it leads, on its host.
    links text[] NOT NULL,
    read_time timestamptz NOT NULL,
    -- When a run last came by it.
    seen_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source_id, url)
);
