-- What callers say of their answers. Older versions neither read nor write it.

-- Feedback in proto3 JSON; null where nothing is said.
ALTER TABLE messages ADD COLUMN feedback jsonb;

-- A comment may quote the document.
CREATE OR REPLACE FUNCTION blank_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH blanked AS (
        UPDATE messages SET content = '', citations = '[]', feedback = feedback - 'comment'
        WHERE document_ids && (SELECT array_agg(document_id) FROM gone)
        RETURNING message_id
    )
    DELETE FROM request_replays USING blanked WHERE request_replays.message_id = blanked.message_id;
    RETURN NULL;
END
$$;
