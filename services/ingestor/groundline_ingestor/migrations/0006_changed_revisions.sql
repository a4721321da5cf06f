-- What a job did to a document, so that it can be taken back. Older versions neither read nor write it.

-- The revision that the item stored, and the one that it replaced; null unless the outcome is created or updated.
ALTER TABLE ingestion_items ADD COLUMN revision text;
ALTER TABLE ingestion_items ADD COLUMN replaced_revision text;
