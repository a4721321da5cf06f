-- What the ingestor signs page tokens with. A row that is changed makes all of them invalid, once it has been restarted.
CREATE TABLE ingestor_page_token_key (key bytea NOT NULL);
CREATE UNIQUE INDEX ingestor_page_token_key_single ON ingestor_page_token_key ((true));
-- 244 random bits, by PostgreSQL's own means.
INSERT INTO ingestor_page_token_key
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
