-- Keys to the gateway, as hashes: nobody who reads this table can use one.
CREATE TABLE api_keys (
    key_id text PRIMARY KEY,
    -- The client in logs and limits. Several keys may share it, so that one can take another's place.
    name text NOT NULL,
    -- SHA-256 of the key, which is random and long enough to need no slower hash.
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    principals text[] NOT NULL CHECK (cardinality(principals) > 0),
    scopes text[] NOT NULL CHECK (cardinality(scopes) > 0),
    create_time timestamptz NOT NULL DEFAULT now(),
    expire_time timestamptz,
    revoke_time timestamptz
);
