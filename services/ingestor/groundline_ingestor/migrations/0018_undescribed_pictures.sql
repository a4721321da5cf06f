-- How many pictures of a document were to be described by a model and are not; null of none, and of items of earlier releases.
ALTER TABLE ingestion_items ADD COLUMN undescribed_pictures integer;
