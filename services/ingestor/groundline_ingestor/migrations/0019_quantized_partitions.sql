-- Whether an index outside PostgreSQL keeps the partition's objects among quantized vectors, as its collection had it when
-- the partition was made; null of earlier ones: no.
ALTER TABLE chunk_partitions ADD COLUMN is_quantized boolean;
ALTER TABLE search_index_partitions ADD COLUMN is_quantized boolean;

-- Share of the nearest vectors that were found by the bits of a quantized index in PostgreSQL when it was last tried on a
-- sample; null: never.
ALTER TABLE chunk_partitions ADD COLUMN found_by_bits real;
