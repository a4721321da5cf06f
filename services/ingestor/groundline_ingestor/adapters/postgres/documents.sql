-- name: text
-- Characters from $4 to $5 of a text that is stored in parts.
WITH parts AS (
    SELECT part, text, sum(length(text)) OVER (ORDER BY part)::int AS part_end,
           (sum(length(text)) OVER (ORDER BY part) - length(text))::int AS part_start
    FROM document_texts JOIN documents d USING (document_id)
    WHERE d.collection_id = $1 AND document_id = $2::uuid AND {is_readable_text}
)
SELECT coalesce(max(part_end), 0) AS size, coalesce(string_agg(
           substr(text, greatest($4 - part_start, 0) + 1,
                  least(part_end, $5) - greatest(part_start, $4)), '' ORDER BY part
       ) FILTER (WHERE part_start < $5 AND part_end > $4), '') AS text
FROM parts

-- name: states
SELECT state, count(*) FROM documents WHERE collection_id = $1 AND {is_readable} GROUP BY 1

-- name: sizes
SELECT coalesce(sum(size_bytes), 0)::bigint AS bytes, coalesce(sum(token_count), 0) AS tokens
FROM documents WHERE collection_id = $1 AND chunk_count > 0 AND {is_readable}
