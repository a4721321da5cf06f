-- Conversations and their messages.

CREATE TABLE threads (
    thread_id uuid PRIMARY KEY,
    -- The first principal of the caller that began it; empty for a caller without principals.
    owner text NOT NULL,
    title text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX ON threads (owner, update_time DESC, thread_id);

CREATE TABLE messages (
    thread_id uuid NOT NULL REFERENCES threads ON DELETE CASCADE,
    message_index integer NOT NULL,
    message_id uuid NOT NULL UNIQUE,
    role text NOT NULL CHECK (role IN ('user', 'assistant')),
    content text NOT NULL,
    -- Source, Citation and Usage in proto3 JSON; empty for the user's messages.
    sources jsonb NOT NULL DEFAULT '[]',
    citations jsonb NOT NULL DEFAULT '[]',
    usage jsonb NOT NULL DEFAULT '{}',
    finish_reason text,
    model text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, message_index)
);
