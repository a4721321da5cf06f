ALTER TABLE ingestion_jobs ADD COLUMN is_dry_run boolean NOT NULL DEFAULT false;

-- What to crawl without taking anything in. Not in the column crawl: workers of releases that know no dry runs would
-- take it in.
ALTER TABLE ingestion_items ADD COLUMN dry_crawl jsonb;
CREATE INDEX ingestion_items_pending_dry_crawl ON ingestion_items (queue_id)
    WHERE dry_crawl IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');
