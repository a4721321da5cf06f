-- Sources, and when their runs are due: after the interval, give or take a tenth.

-- name: about
(.9 + .2 * random())

-- name: update
UPDATE sources SET
    name = $3, definition = $4, interval_seconds = $5,
    principals = coalesce($6::text[], principals),
    cursor = CASE WHEN $6::text[] IS NULL THEN cursor ELSE '' END,
    next_run_time = CASE
        WHEN $7 THEN NULL
        WHEN $6::text[] IS NOT NULL THEN clock_timestamp()
        WHEN (definition ->> 'isPaused')::boolean
            THEN CASE WHEN $5 > 0 THEN clock_timestamp() END
        -- A run that is due already stays so.
        WHEN interval_seconds <> $5 AND coalesce(next_run_time > clock_timestamp(), true)
            THEN CASE WHEN $5 > 0 THEN clock_timestamp() + make_interval(secs => $5 * {about}) END
        ELSE next_run_time
    END
WHERE source_id = $1::uuid AND definition = $2 RETURNING true

-- name: set_next_runs
UPDATE sources SET next_run_time = CASE
    WHEN interval_seconds > 0 THEN clock_timestamp() + make_interval(secs => interval_seconds * {about})
END
WHERE source_id = ANY($1::uuid[])
