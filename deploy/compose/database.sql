-- Run once, as superuser, when the volume is empty. On Kubernetes the same is in components/postgres/cluster.yaml.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE EXTENSION IF NOT EXISTS pg_tokenizer CASCADE;
CREATE EXTENSION IF NOT EXISTS vchord_bm25 CASCADE;
ALTER DATABASE groundline SET search_path = "$user", public, bm25_catalog, tokenizer_catalog;
