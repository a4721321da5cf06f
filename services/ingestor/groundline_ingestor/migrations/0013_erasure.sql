-- What is kept of a document outside itself, and has to be found when it is deleted.

CREATE INDEX context_cache_context ON context_cache USING hash (context);
-- Only these keep what was handed in.
CREATE INDEX ingestion_items_retryable ON ingestion_items (collection_id, uri) WHERE state IN ('failed', 'cancelled');

-- Items that are done need no title and metadata: their documents have them.
UPDATE ingestion_items SET input = input - '{title,metadata}'::text[] WHERE state = 'done' AND input IS NOT NULL;
