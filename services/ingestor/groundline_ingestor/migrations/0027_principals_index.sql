-- An index on who may read a chunk, by which the exact search finds the few that a caller may read.

-- Partitions of now get theirs here, later ones when they are attached. Writes wait meanwhile, about half a second for
-- 100,000 chunks.
CREATE INDEX chunks_principals ON chunks USING gin (allowed_principals);
