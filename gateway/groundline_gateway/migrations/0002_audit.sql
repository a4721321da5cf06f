-- Calls of the API: who did what to which resource, with what outcome. Entries are numbered without gaps, and the hash of
-- each covers the one before.
CREATE TABLE audit_entries (
    entry_id bigint PRIMARY KEY,
    time timestamptz NOT NULL,
    entry jsonb NOT NULL,
    -- SHA-256 of the hash before and the entry with its number.
    hash bytea NOT NULL CHECK (octet_length(hash) = 32)
);
CREATE INDEX ON audit_entries (time);

-- The last entry; whoever appends locks it.
CREATE TABLE audit_head (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    entry_id bigint NOT NULL,
    hash bytea NOT NULL
);
INSERT INTO audit_head (entry_id, hash) VALUES (0, decode(repeat('00', 32), 'hex'));

-- Bytes of each gateway's log that have become entries.
CREATE TABLE audit_positions (
    log_id uuid PRIMARY KEY,
    position bigint NOT NULL,
    update_time timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION keep_audit_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries of the audit log are not changed';
END
$$;
CREATE TRIGGER keep_audit_entries BEFORE UPDATE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_entries();

CREATE FUNCTION drop_oldest_audit_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM audit_entries WHERE entry_id < (SELECT max(entry_id) FROM gone)) THEN
        RAISE EXCEPTION 'only the oldest entries of the audit log are deleted';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER drop_oldest_audit_entries AFTER DELETE ON audit_entries
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION drop_oldest_audit_entries();
