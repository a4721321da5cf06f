-- Sources, whose runs are jobs: an item of the job goes through the source, and what it finds are further items.

CREATE TABLE sources (
    source_id uuid PRIMARY KEY,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    name text NOT NULL,
    -- The contract's DocumentSource, without what follows from other columns.
    definition jsonb NOT NULL,
    -- Of its creator, by whose rights runs act.
    principals text[] NOT NULL,
    interval_seconds integer NOT NULL,
    next_run_time timestamptz,
    -- Up to where the source was read, in the connector's own words.
    cursor text NOT NULL DEFAULT '',
    last_job_id uuid,
    create_time timestamptz NOT NULL DEFAULT now(),
    UNIQUE (collection_id, name)
);
CREATE INDEX sources_due ON sources (next_run_time) WHERE next_run_time IS NOT NULL;

-- What sources have brought, whether or not it could be read.
CREATE TABLE source_documents (
    collection_id text NOT NULL,
    uri text NOT NULL,
    source_id uuid NOT NULL REFERENCES sources ON DELETE CASCADE,
    -- By which the connector tells whether it has changed; empty: to be read again.
    version text NOT NULL,
    -- The last run that found it.
    job_id uuid NOT NULL,
    PRIMARY KEY (collection_id, uri)
);
CREATE INDEX source_documents_run ON source_documents (source_id, job_id);

-- The source whose run the item is. Its collection_id stays null, as that of a crawl does, so that workers of releases
-- that know no sources pass it over.
ALTER TABLE ingestion_items ADD COLUMN source_id uuid;
CREATE INDEX ingestion_items_pending_run ON ingestion_items (source_id)
    WHERE source_id IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');

ALTER TABLE ingestion_jobs ADD COLUMN deleted_count integer NOT NULL DEFAULT 0;
