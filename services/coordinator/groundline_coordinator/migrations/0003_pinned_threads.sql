-- Threads that their owner keeps before the others. Older versions neither read nor write it.

-- When its owner pinned it; null while it is not pinned.
ALTER TABLE threads ADD COLUMN pin_time timestamptz;

-- Lists of an owner's threads; it serves the older version's lists as the index before it did.
CREATE INDEX threads_listed ON threads (owner, (pin_time IS NOT NULL) DESC, update_time DESC, thread_id DESC);
DROP INDEX threads_owner_update_time_thread_id_idx;
