-- Sums of what callers used.

-- name: report
-- Since the day $1 (UTC), of the caller $2 or, where it is null, of all: one row in all, by day, by caller and by model, $3
-- callers and models at most. Cost is the ledger's, but of models; a thread that was not changed since has no answer of
-- that time.
WITH used AS (
    SELECT day, owner, NULL AS model, usd, NULL::float8 AS answer_usd, 0 AS answers, 0 AS prompt, 0 AS cached, 0 AS output
    FROM spending
    WHERE day >= $1::date AND ($2::text IS NULL OR owner = $2)
    UNION ALL
    SELECT (message.create_time AT TIME ZONE 'UTC')::date, thread.owner, message.model, NULL,
           (message.usage->>'costUsd')::float8, 1, (message.usage->>'promptTokens')::integer,
           (message.usage->>'cachedTokens')::integer, (message.usage->>'outputTokens')::integer
    FROM threads AS thread JOIN messages AS message USING (thread_id)
    WHERE thread.update_time >= $1::date AT TIME ZONE 'UTC' AND message.create_time >= $1::date AT TIME ZONE 'UTC'
        AND message.role = 'assistant' AND ($2::text IS NULL OR thread.owner = $2)
), summed AS (
    SELECT CASE GROUPING(day, owner, model)
               WHEN 7 THEN 'total' WHEN 3 THEN 'days' WHEN 5 THEN 'callers' ELSE 'models'
           END AS part,
           coalesce(day::text, owner, model, '') AS name,
           CASE WHEN GROUPING(model) = 0 THEN sum(answer_usd) ELSE sum(usd) END AS cost_usd,
           sum(answers) AS answers, sum(prompt) AS prompt_tokens, sum(cached) AS cached_tokens,
           sum(output) AS output_tokens
    FROM used
    GROUP BY GROUPING SETS ((), (day), (owner), (model))
    HAVING GROUPING(model) = 1 OR model IS NOT NULL
), placed AS (
    SELECT *, row_number() OVER (
        PARTITION BY part
        ORDER BY CASE part WHEN 'days' THEN name END DESC, cost_usd DESC NULLS LAST,
                 coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) DESC, name
    ) AS place
    FROM summed
)
SELECT part, name, coalesce(cost_usd, 0) AS cost_usd, coalesce(answers, 0)::integer AS answers,
       coalesce(prompt_tokens, 0)::float8 AS prompt_tokens, coalesce(cached_tokens, 0)::float8 AS cached_tokens,
       coalesce(output_tokens, 0)::float8 AS output_tokens
FROM placed WHERE place <= $3 OR part = 'days'
ORDER BY part, place
