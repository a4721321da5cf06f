-- Leases that can be judged whatever is done to the clock, and items that are worked on alone after a worker was lost.

ALTER TABLE ingestion_items
    -- The lease's term; null without one.
    ADD COLUMN lease_seconds double precision,
    -- Whether its worker began nothing beside it.
    ADD COLUMN is_alone boolean NOT NULL DEFAULT false,
    -- Whether a worker was lost that had it.
    ADD COLUMN is_suspect boolean NOT NULL DEFAULT false;

CREATE INDEX ingestion_items_leased ON ingestion_items (lease_until) WHERE lease_id IS NOT NULL;
CREATE INDEX ingestion_items_suspect ON ingestion_items (queue_id)
    WHERE is_suspect AND state NOT IN ('done', 'failed', 'cancelled');
