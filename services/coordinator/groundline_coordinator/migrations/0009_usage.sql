-- What the report of usage sums, so that it need not read the answers, which are ten times as large. Older versions use it,
-- too.
CREATE INDEX messages_usage ON messages (create_time) INCLUDE (thread_id, model, usage) WHERE role = 'assistant';
