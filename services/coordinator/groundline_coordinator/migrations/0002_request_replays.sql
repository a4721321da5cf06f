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
