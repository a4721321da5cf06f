-- What was deleted for good, in numbers and hashes: no text, title or uri. Older versions neither read nor write it.

CREATE TABLE erasures (
    erasure_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    -- Of the time: the collection may be gone.
    collection_id text NOT NULL,
    -- The first principal of the caller that asked for it; empty for work that no caller waited for, as a source's run.
    owner text NOT NULL,
    is_collection boolean NOT NULL,
    document_count integer NOT NULL,
    revision_count integer NOT NULL,
    chunk_count integer NOT NULL,
    answer_count integer NOT NULL,
    -- SHA-256 of what was handed in, of all revisions; the first thousand in their order.
    content_hashes bytea[] NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON erasures (owner, create_time DESC, erasure_id);
CREATE INDEX ON erasures (collection_id, create_time DESC, erasure_id);
