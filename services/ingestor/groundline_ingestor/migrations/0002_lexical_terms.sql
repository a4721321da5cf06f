-- Terms of a chunk with their counts, in its row as its vector is. Keyword searches of collections that share a partition
-- are scored by these, with statistics of what the caller may read: those of the keyword index count others' chunks too.
-- Null in rows of earlier releases, which the index scores until they are indexed again.
ALTER TABLE chunks ADD COLUMN lexical_terms sparsevec;
ALTER TABLE chunks ALTER COLUMN lexical_terms SET STORAGE MAIN;

-- Tables that unfinished imports fill become partitions, and need the same columns.
DO $$
DECLARE
    filled text;
BEGIN
    FOR filled IN
        SELECT 'chunks_p' || partition_id FROM imports WHERE to_regclass('chunks_p' || partition_id) IS NOT NULL
            AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass('chunks_p' || partition_id))
    LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN lexical_terms sparsevec', filled);
        EXECUTE format('ALTER TABLE %I ALTER COLUMN lexical_terms SET STORAGE MAIN', filled);
    END LOOP;
END
$$;

-- Whether a search may use the statistics of a whole index is asked each time: by this index one document is read for each
-- different list of principals, of however many that have it. By a hash, since lists may be longer than an index takes.
CREATE INDEX documents_restricted ON documents (collection_id, hash_array_extended(allowed_principals, 0))
    WHERE allowed_principals <> '{}';
