-- name: save
-- $15 is the term of new leases, $16 the pause until the items are begun, both in seconds.
UPDATE ingestion_items i SET
    state = n.state, lease_id = n.lease_id, is_alone = n.is_alone, is_suspect = n.is_suspect,
    attempts = n.attempts, forgiven_attempts = n.forgiven_attempts, outcome = n.outcome,
    failure = n.failure,
    parsed_count = n.parsed, contextualized_count = n.contextualized, embedded_count = n.embedded,
    stored_count = n.stored,
    lease_seconds = CASE WHEN n.lease_id IS NOT NULL THEN coalesce($15, i.lease_seconds) END,
    lease_until = CASE
        WHEN n.lease_id IS NULL THEN NULL
        WHEN $15 IS NULL THEN i.lease_until
        ELSE clock_timestamp() + make_interval(secs => $15)
    END,
    available_time = coalesce(clock_timestamp() + make_interval(secs => $16), i.available_time),
    start_time = CASE
        WHEN n.attempts > 0 THEN coalesce(i.start_time, clock_timestamp()) ELSE i.start_time
    END,
    change_time = clock_timestamp(),
    end_time = CASE WHEN n.has_ended THEN coalesce(i.end_time, clock_timestamp()) END
FROM unnest(
    $1::uuid[], $2::int[], $3::text[], $4::uuid[], $5::boolean[], $6::boolean[], $7::int[], $8::int[],
    $9::text[], $10::jsonb[], $11::int[], $12::int[], $13::int[], $14::int[], $17::boolean[]
) AS n (
    job_id, item_index, state, lease_id, is_alone, is_suspect, attempts, forgiven_attempts,
    outcome, failure, parsed, contextualized, embedded, stored, has_ended
)
WHERE (i.job_id, i.item_index) = (n.job_id, n.item_index)

-- name: name_stored
UPDATE ingestion_items i SET
    document_id = n.document_id, input = i.input - '{title,metadata}'::text[],
    revision = CASE WHEN n.has_changed THEN {current} END, replaced_revision = n.replaced_revision
FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::boolean[])
    AS n (job_id, item_index, document_id, replaced_revision, has_changed)
LEFT JOIN documents d USING (document_id)
WHERE (i.job_id, i.item_index) = (n.job_id, n.item_index)

-- name: lock_held
SELECT i.* FROM ingestion_items i
JOIN unnest($1::uuid[], $2::int[], $3::uuid[]) AS c (job_id, item_index, lease_id)
    USING (job_id, item_index, lease_id)
ORDER BY i.job_id, i.item_index FOR UPDATE OF i
