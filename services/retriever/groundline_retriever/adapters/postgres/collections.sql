-- Collections that a caller, $1, may read, with their partitions, defaults and limits.

-- One document of each different list of principals, up to the first that the caller may not read.
-- name: restricted
SELECT hash_array_extended(d.allowed_principals, 0) AS list, {is_readable_document} AS is_readable FROM documents d
WHERE d.collection_id = c.collection_id AND d.allowed_principals <> '{}'

-- name: unreadable
WITH RECURSIVE lists AS (
    ({restricted} ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT following.* FROM lists CROSS JOIN LATERAL (
        {restricted} AND hash_array_extended(d.allowed_principals, 0) > lists.list ORDER BY 1 LIMIT 1
    ) AS following
    WHERE lists.is_readable
)
SELECT FROM lists WHERE NOT is_readable

-- name: readable
SELECT c.collection_id, c.xmin, p.partition_id, p.collection_id IS NULL AS is_shared,
    p.embedding_model, p.dimensions, p.language, p.lexical_backend, p.is_quantized IS TRUE AS is_quantized,
    p.collection_id IS NOT NULL AND EXISTS ({unreadable}) AS hides_documents,
    jsonb_build_object(
        'retrieval', c.settings -> 'retrieval',
        'rerank', c.settings -> 'rerank',
        'generationLimits', c.settings -> 'generationLimits'
    )::text AS settings
FROM collections c JOIN chunk_partitions p ON p.partition_id = c.{index}
WHERE {is_readable}

-- name: readable_named
{readable} AND c.collection_id = ANY ($2::text[]) ORDER BY c.collection_id

-- name: readable_all
{readable} ORDER BY c.collection_id
