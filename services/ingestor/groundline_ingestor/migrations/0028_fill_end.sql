-- The last chunk that a fill reads: what was stored later is in the outbox, and would be taken in twice. Null where all are
-- read: no fill is under way, or one that an earlier release began.
ALTER TABLE search_index_partitions ADD COLUMN fill_end bigint;
