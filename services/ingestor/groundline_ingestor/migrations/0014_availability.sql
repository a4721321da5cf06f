-- What was never postponed is available whatever the clock says, should it be set back.
ALTER TABLE ingestion_items ALTER COLUMN available_time SET DEFAULT '-infinity';
