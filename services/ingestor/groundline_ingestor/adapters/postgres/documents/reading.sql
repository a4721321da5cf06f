-- name: states
SELECT state, count(*) FROM documents WHERE collection_id = $1 AND {is_readable} GROUP BY 1

-- name: sizes
SELECT coalesce(sum(size_bytes), 0)::bigint AS bytes, coalesce(sum(token_count), 0) AS tokens
FROM documents WHERE collection_id = $1 AND chunk_count > 0 AND {is_readable}
