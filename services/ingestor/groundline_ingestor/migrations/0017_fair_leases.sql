-- Workers that hold a client's share of items look for others' jobs: by this index without reading all that waits.
CREATE INDEX ingestion_items_pending_job ON ingestion_items (job_id, queue_id)
    WHERE state NOT IN ('done', 'failed', 'cancelled');
