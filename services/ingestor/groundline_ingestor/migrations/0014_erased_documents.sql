-- Which documents were deleted for good, by id, so that a backup from before is restored without them. Older versions neither
-- read nor write it.

-- Null in erasures of earlier releases, which only content_hashes tells of.
ALTER TABLE erasures ADD COLUMN document_ids uuid[];
