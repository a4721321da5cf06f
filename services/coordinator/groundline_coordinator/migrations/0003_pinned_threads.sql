-- Threads that their owner keeps before the others. Older versions neither read nor write it.

ALTER TABLE threads ADD COLUMN is_pinned boolean NOT NULL DEFAULT false;

-- Lists of an owner's threads; it serves the older version's lists as the index before it did.
CREATE INDEX threads_listed ON threads (owner, is_pinned DESC, update_time DESC, thread_id DESC);
DROP INDEX threads_owner_update_time_thread_id_idx;
