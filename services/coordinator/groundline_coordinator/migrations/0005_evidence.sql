-- How answers came about, and the keys that evidence of them is signed with. Older versions neither read nor write them.

-- AnswerRecord in proto3 JSON; null of answers of earlier releases, and of those that were blanked.
ALTER TABLE messages ADD COLUMN record jsonb;

CREATE TABLE signing_keys (
    -- Thumbprint of the public key (RFC 7638).
    key_id text PRIMARY KEY,
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    -- Null once another key has taken its place.
    private_key bytea CHECK (octet_length(private_key) = 32),
    create_time timestamptz NOT NULL DEFAULT now(),
    retire_time timestamptz CHECK ((retire_time IS NULL) = (private_key IS NOT NULL))
);
CREATE UNIQUE INDEX signing_keys_in_use ON signing_keys ((true)) WHERE retire_time IS NULL;

-- Queries of a model and what validation found may quote the document.
CREATE OR REPLACE FUNCTION blank_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH blanked AS (
        UPDATE messages SET content = '', citations = '[]', feedback = feedback - 'comment', record = NULL
        WHERE document_ids && (SELECT array_agg(document_id) FROM gone)
        RETURNING message_id
    )
    DELETE FROM request_replays USING blanked WHERE request_replays.message_id = blanked.message_id;
    RETURN NULL;
END
$$;
