-- Indexes beside the one in use: what a re-index holds back, and what was kept when it was replaced. Older versions
-- neither hold back nor keep. No foreign keys: a partition is dropped after its collection was locked by others.
ALTER TABLE collections
    -- Complete, and searched on request only.
    ADD COLUMN candidate_partition_id bigint,
    -- A partition of the collection's own, of which reindexed_documents tells the versions of documents.
    ADD COLUMN previous_partition_id bigint,
    -- The settings by which it was built.
    ADD COLUMN previous_settings jsonb;
ALTER TABLE ingestion_jobs
    ADD COLUMN holds_index boolean,
    ADD COLUMN keeps_previous boolean;
