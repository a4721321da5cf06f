-- What the coordinator signs page tokens with. A row that is changed makes all of them invalid, once it has been restarted.
CREATE TABLE coordinator_page_token_key (key bytea NOT NULL);
CREATE UNIQUE INDEX coordinator_page_token_key_single ON coordinator_page_token_key ((true));
-- 244 random bits, by PostgreSQL's own means.
INSERT INTO coordinator_page_token_key
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
