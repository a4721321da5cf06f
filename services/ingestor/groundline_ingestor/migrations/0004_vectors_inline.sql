-- Vectors stay in their row and texts go out of line first: without an HNSW index a search reads every vector, and one
-- that is stored out of line (as those of 1,536 dimensions would be) takes an index scan each.
-- Applies to rows written from now on, in partitions of now and of later.

ALTER TABLE chunks ALTER COLUMN embedding SET STORAGE MAIN;
