-- After which recovery of the server from an unclean stop a partition's keyword index was built. Of backends that may
-- lose rows in such a stop, an index is searched only if there was no recovery since; workers rebuild the others.
-- Null in partitions of now: nobody knows of theirs, so that such backends rebuild them once.

ALTER TABLE chunk_partitions ADD COLUMN lexical_built_after timestamptz;
ALTER TABLE chunk_partitions ALTER COLUMN lexical_built_after SET DEFAULT pg_stat_get_bgwriter_stat_reset_time();
