-- Signatures by which a search finds near-duplicates without reading texts (groundline-signatures), 136 bytes each. Empty
-- in rows that an older release writes: such chunks are nobody's duplicates until they are ingested again.

ALTER TABLE chunks ADD COLUMN signature bytea NOT NULL DEFAULT '';
