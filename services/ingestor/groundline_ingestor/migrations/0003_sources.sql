-- Crawls as items of jobs; what deletions by a filter did.

ALTER TABLE ingestion_items
    -- What to crawl, in an item that is a crawl. Its collection_id stays null, so that workers of releases that know
    -- no crawls pass it over.
    ADD COLUMN crawl jsonb,
    -- Whether a crawl found it; then it is the job's only one with its uri.
    ADD COLUMN is_page boolean NOT NULL DEFAULT false;

CREATE UNIQUE INDEX ingestion_items_page ON ingestion_items (job_id, uri) WHERE is_page;
CREATE INDEX ingestion_items_pending_crawl ON ingestion_items (queue_id)
    WHERE crawl IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');

-- The count that a retry with the same request_id gets again.
CREATE TABLE document_deletions (
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    request_id text NOT NULL,
    deleted_count integer NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (collection_id, request_id)
);
