-- The trace of the request that handed a job in, as the W3C header traceparent: the work on its items is part of it. Null for
-- jobs that no request began, and for those of earlier releases.
ALTER TABLE ingestion_jobs ADD COLUMN traceparent text;
