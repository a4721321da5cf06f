-- Conversations with their messages, answers that may be replayed, quotas.

CREATE TABLE threads (
    thread_id uuid PRIMARY KEY,
    -- The first principal of the caller that began it; empty for a caller without principals.
    owner text NOT NULL,
    title text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON threads (owner, update_time DESC, thread_id);
-- Threads that nobody has used for long, for their retention.
CREATE INDEX threads_update_time ON threads (update_time);

CREATE TABLE messages (
    thread_id uuid NOT NULL REFERENCES threads ON DELETE CASCADE,
    message_index integer NOT NULL,
    message_id uuid NOT NULL UNIQUE,
    role text NOT NULL CHECK (role IN ('user', 'assistant')),
    content text NOT NULL,
    -- Source, Citation and Usage in proto3 JSON; empty for the user's messages. Sources are kept by id, and what is shown
    -- of them is read with the thread: no text of a document stays here but in answers.
    sources jsonb NOT NULL DEFAULT '[]',
    citations jsonb NOT NULL DEFAULT '[]',
    usage jsonb NOT NULL DEFAULT '{}',
    -- Documents that the answer cites; of one that cites none, all that it was given. While one of them is gone or may
    -- not be read, the answer is not shown.
    document_ids uuid[] NOT NULL DEFAULT '{}',
    finish_reason text,
    model text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, message_index)
);
CREATE INDEX messages_document_ids ON messages USING gin (document_ids);

-- Answers that a retry with the same request_id gets again, and requests that are under way.
CREATE TABLE request_replays (
    -- As in threads.
    owner text NOT NULL,
    request_id text NOT NULL,
    -- SHA-256 of the request without its request_id.
    fingerprint bytea NOT NULL,
    -- The answer's message, chosen when the request begins; it tells one attempt from the next.
    message_id uuid NOT NULL,
    -- Null while the request is under way, and with it the two below.
    thread_id uuid REFERENCES threads ON DELETE CASCADE,
    -- ChatCompleted and ChatStatus in proto3 JSON; text and sources are in messages.
    completed jsonb,
    status jsonb,
    -- Until then a request under way is taken to be alive; after completion, until then its answer is replayed.
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (owner, request_id)
);
CREATE INDEX ON request_replays (expire_time);
CREATE INDEX ON request_replays (thread_id);

-- Answers go with the documents that they rest on, in the transaction that deletes the documents: once it has ended,
-- nothing of them is left.
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

-- Tokens that a caller's answers took, for its quota of a day.
CREATE TABLE token_usage (
    -- As in threads.
    owner text PRIMARY KEY,
    -- In UTC.
    day date NOT NULL,
    tokens bigint NOT NULL
);

-- What the coordinator signs page tokens with: 244 random bits, by PostgreSQL's own means. A row that is changed makes all
-- tokens invalid, once the coordinator has been restarted.
CREATE TABLE coordinator_page_token_key (key bytea NOT NULL);
CREATE UNIQUE INDEX coordinator_page_token_key_single ON coordinator_page_token_key ((true));
INSERT INTO coordinator_page_token_key
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
