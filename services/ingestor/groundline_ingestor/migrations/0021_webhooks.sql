-- Whether the webhooks of its collection have been told of a job's end, or there were none. Jobs of before tell nobody.
ALTER TABLE ingestion_jobs ADD COLUMN is_announced boolean NOT NULL DEFAULT true;
ALTER TABLE ingestion_jobs ALTER COLUMN is_announced SET DEFAULT false;
CREATE INDEX ingestion_jobs_unannounced ON ingestion_jobs (job_id) WHERE NOT is_announced;

-- Notices on their way. A row goes when it was delivered, or tried too often.
CREATE TABLE webhook_deliveries (
    delivery_id uuid PRIMARY KEY,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    job_id uuid NOT NULL,
    -- Of one of the collection's webhooks; the notice goes nowhere once it has none of this URL.
    url text NOT NULL,
    body text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    -- While a worker is at it, when another takes it over.
    next_attempt_time timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_time);
CREATE INDEX webhook_deliveries_collection ON webhook_deliveries (collection_id);
