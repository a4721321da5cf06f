-- The source whose dry run the item is: nothing is taken in, deleted or remembered. Not in the column source_id: workers of
-- releases that know no dry runs of sources would take everything in.
ALTER TABLE ingestion_items ADD COLUMN dry_source_id uuid;
CREATE INDEX ingestion_items_pending_dry_run ON ingestion_items (dry_source_id)
    WHERE dry_source_id IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');
