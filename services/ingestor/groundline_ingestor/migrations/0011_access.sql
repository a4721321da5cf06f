-- Who may administer a collection, who created it, and for whom a job works.

ALTER TABLE collections
    -- Principals that may change settings and access and delete it. Empty: whoever may write.
    ADD COLUMN admins text[] NOT NULL DEFAULT '{}',
    -- The first principal of the caller that created it, to whom its request_id belongs; empty where it had none.
    ADD COLUMN creator text NOT NULL DEFAULT '';

ALTER TABLE collections DROP CONSTRAINT collections_request_id_key;
CREATE UNIQUE INDEX collections_request ON collections (creator, request_id);

-- Principals of the caller that handed the job in, by whose rights its documents are written; the first one sees all its
-- items.
ALTER TABLE ingestion_jobs ADD COLUMN principals text[] NOT NULL DEFAULT '{}';
