-- Collections that are asked, and threads.

-- name: claim
-- Claims a request_id that nobody holds, or whose answer of this message is to be forgotten. A lease that ends
-- later than one of this moment comes from a clock that was set back since. Some expired claims are deleted
-- with it.
WITH expired AS (
    DELETE FROM request_replays WHERE (owner, request_id) IN (
        SELECT owner, request_id FROM request_replays
        WHERE expire_time <= now() AND (owner, request_id) <> ($1, $2)
        LIMIT 10 FOR UPDATE SKIP LOCKED)
)
INSERT INTO request_replays AS replay (owner, request_id, fingerprint, message_id, expire_time)
VALUES ($1, $2, $3, $4, now() + $5)
ON CONFLICT (owner, request_id) DO UPDATE
SET fingerprint = excluded.fingerprint, message_id = excluded.message_id,
    expire_time = excluded.expire_time, thread_id = NULL, completed = NULL, status = NULL
WHERE replay.expire_time <= now() OR replay.message_id = $6
    OR replay.thread_id IS NULL AND replay.expire_time > now() + $5
RETURNING true

-- name: readable
SELECT collection_id, settings::text FROM collections WHERE {is_readable_collection}

-- name: some_readable
-- Those that a request may use without naming any, as far as it matters: is there one, are there several, and
-- which have limits of generation.
WITH readable AS MATERIALIZED ({readable})
SELECT * FROM readable WHERE settings LIKE '%"generationLimits"%'
UNION
(SELECT * FROM readable LIMIT 2)

-- name: begin_thread
-- A question has an even index and the next one belongs to its answer, whenever that comes.
WITH thread AS (
    INSERT INTO threads (thread_id, owner, title) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
)
INSERT INTO messages (thread_id, message_index, message_id, role, content)
VALUES ($1, 0, $4, 'user', $5)
ON CONFLICT DO NOTHING

-- name: touch_thread
UPDATE threads SET update_time = greatest(update_time, clock_timestamp())
WHERE thread_id = $1 AND owner = $2
RETURNING thread_id

-- name: continue_thread
INSERT INTO messages (thread_id, message_index, message_id, role, content)
SELECT $1, coalesce(max(message_index) / 2 + 1, 0) * 2, $2, 'user', $3
FROM messages WHERE thread_id = $1
ON CONFLICT (message_id) DO NOTHING

-- name: columns
message_id, role, content, sources, citations, usage, finish_reason, model, document_ids, record

-- name: stored
-- The documents that it rests on cannot be deleted until the answer exists, to be blanked with them.
WITH thread AS ({touch_thread}),
kept AS MATERIALIZED (
    SELECT document_id FROM documents WHERE document_id = ANY($5::uuid[])
    ORDER BY document_id FOR KEY SHARE
),
given AS (
    SELECT message_id, role,
           CASE WHEN is_whole THEN content ELSE '' END AS content,
           sources,
           CASE WHEN is_whole THEN citations ELSE '[]' END AS citations,
           usage, finish_reason, model, $5::uuid[] AS document_ids,
           CASE WHEN is_whole THEN record END AS record
    FROM jsonb_to_record($4) AS given (
        message_id uuid, role text, content text, sources jsonb, citations jsonb, usage jsonb,
        finish_reason text, model text, record jsonb
    ), (SELECT count(*) = cardinality($5::uuid[]) AS is_whole FROM kept)
),
stored AS (
    INSERT INTO messages (thread_id, message_index, {columns})
    SELECT thread_id, question.message_index + 1, given.*
    FROM thread JOIN messages AS question USING (thread_id), given
    WHERE question.message_id = $3
    ON CONFLICT (thread_id, message_index) DO UPDATE
    SET ({columns}, create_time, feedback) = (
        excluded.message_id, excluded.role, excluded.content, excluded.sources, excluded.citations,
        excluded.usage, excluded.finish_reason, excluded.model, excluded.document_ids, excluded.record, now(), NULL
    )
    RETURNING thread_id, message_index
)

-- name: cited
-- Revisions of what it rests on stay as long as it does.
cited AS (
    INSERT INTO cited_revisions (document_id, revision, thread_id, message_index)
    SELECT DISTINCT kept.document_id, source ->> 'revision', stored.thread_id, stored.message_index
    FROM stored, given, jsonb_array_elements(given.sources) AS source
    JOIN kept ON kept.document_id = (source ->> 'documentId')::uuid
    WHERE source ->> 'revision' <> ''
    ON CONFLICT DO NOTHING
)

-- name: answer
{stored}, {cited} SELECT thread_id FROM stored

-- name: answer_claim
-- A claim whose lease ran out may be another's by now; then no answer is kept for replays.
{stored}, {cited}, kept_for_replays AS (
    UPDATE request_replays SET thread_id = $1, completed = $10, status = $11, expire_time = now() + $12
    WHERE owner = $6 AND request_id = $7 AND fingerprint = $8 AND message_id = $9
    AND EXISTS (SELECT FROM stored)
)
SELECT thread_id FROM stored

-- name: documents
-- A message's existing and readable source documents, by id; $3 are the caller's principals.
SELECT coalesce(jsonb_object_agg(document.document_id, jsonb_build_object(
    'title', document.title, 'uri', document.uri, 'metadata', nullif(document.metadata, '{}'),
    'hasOriginal', document.has_original,
    'currentRevision', {current_revision}
)), '{}')
FROM documents AS document JOIN collections AS collection USING (collection_id)
WHERE document.document_id IN (
    SELECT (source ->> 'documentId')::uuid FROM jsonb_array_elements(messages.sources) AS source
) AND {is_readable_collection_of_document} AND {is_readable_document}

-- name: replay
SELECT replay.fingerprint, replay.thread_id, replay.completed, replay.status,
       messages.message_id, messages.content, messages.sources, messages.citations,
       ({documents}) AS documents
FROM request_replays AS replay LEFT JOIN messages USING (message_id)
WHERE replay.owner = $1 AND replay.request_id = $2

-- name: history
-- Without a last question that has no answer yet.
SELECT messages.role, messages.content, messages.document_ids, ({documents}) AS documents
FROM threads LEFT JOIN messages ON messages.thread_id = threads.thread_id
    AND (messages.role = 'assistant' OR EXISTS (
        SELECT FROM messages AS answer
        WHERE answer.thread_id = messages.thread_id
        AND answer.message_index = messages.message_index + 1))
WHERE threads.thread_id = $1 AND threads.owner = $2
ORDER BY messages.message_index DESC
LIMIT $4

-- name: shown
messages.message_index, messages.message_id, messages.role, messages.content, messages.sources, messages.citations,
messages.usage, messages.finish_reason, messages.model, messages.document_ids, messages.create_time, messages.feedback,
({documents}) AS documents

-- name: messages
SELECT {shown} FROM messages
WHERE thread_id = $1 AND message_index > $2
ORDER BY message_index LIMIT $4

-- name: answers
SELECT {shown}, messages.record, question.message_id AS question_id, question.content AS question,
       question.create_time AS question_time
FROM messages JOIN messages AS question
    ON question.thread_id = messages.thread_id AND question.message_index = messages.message_index - 1
WHERE messages.thread_id = $1 AND messages.role = 'assistant' AND ($2::uuid IS NULL OR messages.message_id = $2)
ORDER BY messages.message_index LIMIT $4

-- name: is_pinned
pin_time IS NOT NULL

-- name: thread
SELECT thread_id, title, create_time, update_time, {is_pinned} AS is_pinned,
       (SELECT count(*) FROM messages WHERE messages.thread_id = threads.thread_id) AS message_count
FROM threads

-- name: update_thread
UPDATE threads SET title = coalesce($3, title),
    pin_time = CASE WHEN coalesce($4, {is_pinned}) THEN coalesce(pin_time, now()) END
WHERE thread_id = $1 AND owner = $2

-- name: rate
UPDATE messages SET feedback = $4::jsonb || jsonb_build_object(
    'updateTime', to_char(now() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
FROM threads
WHERE threads.thread_id = $1 AND threads.owner = $2
AND messages.thread_id = threads.thread_id AND messages.message_id = $3 AND messages.role = 'assistant'
RETURNING message_id, feedback
