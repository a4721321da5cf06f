-- Collections that a caller, $1, may read, with their partitions, defaults and limits.

-- name: readable
SELECT c.collection_id, c.xmin, c.partition_id, p.collection_id IS NULL AS is_shared,
    p.embedding_model, p.dimensions, p.language, p.lexical_backend,
    jsonb_build_object(
        'retrieval', c.settings -> 'retrieval',
        'rerank', c.settings -> 'rerank',
        'generationLimits', c.settings -> 'generationLimits'
    )::text AS settings
FROM collections c JOIN chunk_partitions p USING (partition_id)
WHERE {is_readable}

-- name: readable_named
{readable} AND c.collection_id = ANY ($2::text[]) ORDER BY c.collection_id

-- name: readable_all
{readable} ORDER BY c.collection_id
