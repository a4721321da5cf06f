-- Notices to webhooks that wait to be delivered.

-- name: lease
WITH due AS (
    SELECT delivery_id FROM webhook_deliveries WHERE next_attempt_time <= clock_timestamp()
    ORDER BY next_attempt_time LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries d
SET attempts = attempts + 1,
    next_attempt_time = clock_timestamp() + make_interval(secs => $2)
FROM due, collections c
WHERE d.delivery_id = due.delivery_id AND c.collection_id = d.collection_id
RETURNING d.*, c.settings

-- name: lag
SELECT extract(epoch FROM max(clock_timestamp() - coalesce(
    j.end_time, (SELECT max(i.end_time) FROM ingestion_items i WHERE i.job_id = j.job_id)
)))::float8
FROM webhook_deliveries d JOIN ingestion_jobs j USING (job_id)
