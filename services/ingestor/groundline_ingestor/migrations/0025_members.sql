-- Attachments of mails and members of archives as documents of their own.

-- The uri of the document that it is in; empty where it is in none. A uri, not an id: a release that knows nothing of it
-- deletes the container alone, and what was in it is found again when the container comes back.
ALTER TABLE documents ADD COLUMN container_uri text NOT NULL DEFAULT '';
CREATE INDEX documents_container ON documents (collection_id, container_uri) WHERE container_uri <> '';

-- How many items were made of the files within its document.
ALTER TABLE ingestion_items ADD COLUMN member_count integer NOT NULL DEFAULT 0;
