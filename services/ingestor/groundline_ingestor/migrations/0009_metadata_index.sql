-- An index on metadata, which filters look into by containment.

-- Partitions of now get theirs here, later ones when they are attached. Writes wait meanwhile, about a second for
-- 100,000 chunks.
CREATE INDEX chunks_metadata ON chunks USING gin (metadata jsonb_path_ops);

-- Signatures are read for every candidate of a search.
ALTER TABLE chunks ALTER COLUMN signature SET STORAGE MAIN;

-- Not written any more: nothing read it. To be dropped when no release that writes it is in use.
ALTER TABLE chunks ALTER COLUMN content_hash SET DEFAULT '';
