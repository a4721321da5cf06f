-- Time of a call with the key, noted once an hour; null: none is known. Older versions neither read nor write it.
ALTER TABLE api_keys ADD COLUMN last_use_time timestamptz;
