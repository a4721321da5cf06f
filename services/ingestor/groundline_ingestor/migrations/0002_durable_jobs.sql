-- Jobs whose documents workers lease, re-indexing beside the partition in use, caches of costly results.

-- Order of hand-in over all jobs: of two items with one uri the later one wins.
CREATE SEQUENCE ingestion_queue;

ALTER TABLE ingestion_jobs
    ADD COLUMN kind text NOT NULL DEFAULT 'ingest' CHECK (kind IN ('ingest', 'reindex')),
    ADD COLUMN cancel_time timestamptz,
    -- Of a reindex: where it builds, what it builds by, and whether it only waits for the last changes, so that
    -- other items of the collection wait for it. Its state and end_time are stored; those of an ingestion follow from
    -- its items.
    ADD COLUMN partition_id bigint,
    ADD COLUMN settings jsonb,
    ADD COLUMN is_finishing boolean NOT NULL DEFAULT false;

CREATE UNIQUE INDEX ingestion_jobs_reindex ON ingestion_jobs (collection_id)
    WHERE kind = 'reindex' AND end_time IS NULL;

ALTER TABLE ingestion_items
    ADD COLUMN collection_id text,
    ADD COLUMN queue_id bigint NOT NULL DEFAULT nextval('ingestion_queue'),
    -- What was handed in, without its content, which is in ingestion_payloads; null for an item of a reindex.
    ADD COLUMN input jsonb,
    ADD COLUMN lease_id uuid,
    ADD COLUMN lease_until timestamptz,
    -- Not before this; set by back-off.
    ADD COLUMN available_time timestamptz NOT NULL DEFAULT now(),
    -- Attempts before the last RetryJob, which do not count against the most there may be.
    ADD COLUMN forgiven_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN prompt_tokens integer NOT NULL DEFAULT 0,
    ADD COLUMN cached_tokens integer NOT NULL DEFAULT 0,
    ADD COLUMN output_tokens integer NOT NULL DEFAULT 0,
    ADD COLUMN change_time timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN start_time timestamptz,
    ADD COLUMN end_time timestamptz;

CREATE INDEX ingestion_items_pending ON ingestion_items (queue_id)
    WHERE state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_pending_uri ON ingestion_items (collection_id, uri, queue_id)
    WHERE state NOT IN ('done', 'failed', 'cancelled');

-- Content handed in, in parts, so that no side ever holds copies of a large one. Gone when the item is done, and some
-- time after it failed or was cancelled, until when it can be retried.
CREATE TABLE ingestion_payloads (
    job_id uuid NOT NULL,
    item_index integer NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (job_id, item_index, part),
    FOREIGN KEY (job_id, item_index) REFERENCES ingestion_items ON DELETE CASCADE
);
-- Mostly compressed formats, or text that is soon gone: not worth the time.
ALTER TABLE ingestion_payloads ALTER COLUMN data SET STORAGE EXTERNAL;

ALTER TABLE documents
    -- SHA-256 of what was handed in with all that decides its text; ingestion_hash adds settings and partition.
    ADD COLUMN input_hash bytea,
    -- Raised whenever chunks or what they repeat of the document change; a reindex sees by it what it has to redo.
    ADD COLUMN version bigint NOT NULL DEFAULT 1,
    -- Tokens of its chunks, by the embedding model.
    ADD COLUMN token_count integer NOT NULL DEFAULT 0;

-- The extracted text, in parts, from which a reindex makes chunks. Headings are on part 0.
CREATE TABLE document_texts (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    part integer NOT NULL,
    text text NOT NULL,
    headings jsonb,
    PRIMARY KEY (document_id, part)
);

-- Which version of a document a partition that is being built holds, with the hash it will have.
CREATE TABLE reindexed_documents (
    partition_id bigint NOT NULL REFERENCES chunk_partitions ON DELETE CASCADE,
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    version bigint NOT NULL,
    ingestion_hash bytea NOT NULL,
    chunk_count integer NOT NULL,
    token_count integer NOT NULL,
    PRIMARY KEY (partition_id, document_id)
);

-- When a partition that was replaced is dropped; null for those in use or being built.
ALTER TABLE chunk_partitions ADD COLUMN drop_time timestamptz;

CREATE TABLE embedding_cache (
    model text NOT NULL,
    -- SHA-256 of the embedded text.
    content_hash bytea NOT NULL,
    embedding halfvec NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, content_hash)
);
CREATE INDEX ON embedding_cache (create_time);

CREATE TABLE context_cache (
    -- SHA-256 of document, chunk, prompt and model.
    cache_key bytea PRIMARY KEY,
    context text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON context_cache (create_time);
