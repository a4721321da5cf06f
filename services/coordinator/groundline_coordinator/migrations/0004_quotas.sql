-- Tokens that a caller's answers took, for its quota of a day.

CREATE TABLE token_usage (
    -- As in threads.
    owner text PRIMARY KEY,
    -- In UTC.
    day date NOT NULL,
    tokens bigint NOT NULL
);
