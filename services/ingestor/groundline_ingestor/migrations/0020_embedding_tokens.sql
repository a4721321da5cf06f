-- Tokens that the embedding model read for an item, beside those of its contexts.
ALTER TABLE ingestion_items ADD COLUMN embedding_tokens integer NOT NULL DEFAULT 0;
