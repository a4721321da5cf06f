-- Price in US dollars of the model calls for an item, in all its attempts: null before any, NaN when the price of one is not
-- known. Embedding is not in it.
ALTER TABLE ingestion_items ADD COLUMN cost_usd double precision;
