-- Answers go with the documents that they rest on. Sources are kept by id, and what is shown of them is read with the
-- thread: no text of a document stays here but in answers.

ALTER TABLE messages
    -- Documents that the answer cites; of one that cites none, all that it was given. While one of them is gone or may
    -- not be read, the answer is not shown.
    ADD COLUMN document_ids uuid[] NOT NULL DEFAULT '{}';

UPDATE messages SET
    document_ids = ARRAY(
        SELECT DISTINCT (source ->> 'documentId')::uuid FROM jsonb_array_elements(sources) AS source
        WHERE finish_reason IS DISTINCT FROM 'no_answer' AND (
            citations = '[]' OR EXISTS (
                SELECT FROM jsonb_array_elements(citations) AS citation
                WHERE citation -> 'sourceNumber' = source -> 'number'))),
    sources = (
        SELECT coalesce(jsonb_agg(source - '{title,uri,snippet,metadata}'::text[] ORDER BY place), '[]')
        FROM jsonb_array_elements(sources) WITH ORDINALITY AS given (source, place)),
    citations = (
        SELECT coalesce(jsonb_agg(citation - 'supportingText' ORDER BY place), '[]')
        FROM jsonb_array_elements(citations) WITH ORDINALITY AS given (citation, place))
WHERE sources <> '[]';

CREATE INDEX messages_document_ids ON messages USING gin (document_ids);

-- What is replayed repeats what the answer's message has.
DELETE FROM request_replays WHERE thread_id IS NOT NULL;

-- In the transaction that deletes the documents: once it has ended, nothing of them is left.
CREATE FUNCTION blank_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH blanked AS (
        UPDATE messages SET content = '', citations = '[]'
        WHERE document_ids && (SELECT array_agg(document_id) FROM gone)
        RETURNING message_id
    )
    DELETE FROM request_replays USING blanked WHERE request_replays.message_id = blanked.message_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER blank_answers AFTER DELETE ON documents
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION blank_answers();

UPDATE messages SET content = '', citations = '[]'
WHERE EXISTS (
    SELECT FROM unnest(document_ids) AS needed (document_id)
    WHERE NOT EXISTS (SELECT FROM documents WHERE documents.document_id = needed.document_id));

-- Threads that nobody has used for long, for their retention.
CREATE INDEX threads_update_time ON threads (update_time);
