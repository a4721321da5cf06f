-- Collections, documents, chunks, ingestion jobs.
-- No extension for keyword search is created here: a database holds one of several, and the migrate command sees to the
-- one that is configured.

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE collections (
    collection_id text PRIMARY KEY CHECK (collection_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    name text NOT NULL,
    -- CollectionSettings in proto3 JSON, only what was set; access, embedding and lexical have columns of their own,
    -- here and in chunk_partitions.
    settings jsonb NOT NULL DEFAULT '{}',
    -- An empty array is no restriction.
    readers text[] NOT NULL DEFAULT '{}',
    writers text[] NOT NULL DEFAULT '{}',
    -- The partition that is searched and written; see chunk_partitions.
    partition_id bigint NOT NULL,
    request_id text UNIQUE,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now()
);

-- A partition of chunks holds one collection, embedded by one model and indexed in one language, so that dimension,
-- language and term statistics are its own. Its table is chunks_p<partition_id>.
CREATE TABLE chunk_partitions (
    partition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    embedding_model text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
    language text NOT NULL,
    lexical_backend text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE collections ADD FOREIGN KEY (partition_id)
    REFERENCES chunk_partitions DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON chunk_partitions (collection_id);

CREATE TABLE documents (
    document_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    uri text NOT NULL,
    source_type text NOT NULL CHECK (source_type IN ('file', 'object', 'web')),
    title text NOT NULL,
    mime_type text NOT NULL,
    -- SHA-256 of what was handed in.
    content_hash bytea NOT NULL,
    -- SHA-256 of all that decides the chunks: content, title, settings, embedding model, version of the pipeline.
    ingestion_hash bytea NOT NULL,
    size_bytes integer NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    -- An empty array is no restriction beyond the collection's.
    allowed_principals text[] NOT NULL DEFAULT '{}',
    state text NOT NULL,
    chunk_count integer NOT NULL DEFAULT 0,
    -- IngestionFailure: {"stage", "reason", "message"}; null where the last ingestion did not fail.
    failure jsonb,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    UNIQUE (collection_id, uri)
);

-- original_text with context_annotation before it is what was embedded. source_type, metadata, allowed_principals and
-- update_time repeat the document's, so that a search filters without a join.
-- Not an identity column: before PostgreSQL 17 partitions do not inherit those.
CREATE SEQUENCE chunk_ids;

CREATE TABLE chunks (
    partition_id bigint NOT NULL,
    chunk_id bigint NOT NULL DEFAULT nextval('chunk_ids'),
    document_id uuid NOT NULL,
    chunk_index integer NOT NULL,
    original_text text NOT NULL,
    context_annotation text NOT NULL,
    -- What BM25 indexes: context, text, identifier sub-tokens.
    lexical_text text NOT NULL,
    embedding halfvec NOT NULL,
    -- In the document's extracted text, in code points: extracted[start_offset:end_offset] = original_text.
    start_offset integer NOT NULL,
    end_offset integer NOT NULL,
    content_hash bytea NOT NULL,
    source_type text NOT NULL,
    metadata jsonb NOT NULL,
    allowed_principals text[] NOT NULL,
    update_time timestamptz NOT NULL,
    PRIMARY KEY (partition_id, chunk_id)
) PARTITION BY LIST (partition_id);

ALTER SEQUENCE chunk_ids OWNED BY chunks.chunk_id;

CREATE INDEX ON chunks (document_id, chunk_index);

CREATE TABLE ingestion_jobs (
    job_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    state text NOT NULL,
    request_id text,
    create_time timestamptz NOT NULL DEFAULT now(),
    start_time timestamptz,
    end_time timestamptz,
    UNIQUE (collection_id, request_id)
);

CREATE INDEX ON ingestion_jobs (create_time DESC, job_id DESC);

CREATE TABLE ingestion_items (
    job_id uuid NOT NULL REFERENCES ingestion_jobs ON DELETE CASCADE,
    item_index integer NOT NULL,
    uri text NOT NULL,
    document_id uuid,
    state text NOT NULL,
    outcome text,
    failure jsonb,
    attempts integer NOT NULL DEFAULT 0,
    parsed_count integer NOT NULL DEFAULT 0,
    contextualized_count integer NOT NULL DEFAULT 0,
    embedded_count integer NOT NULL DEFAULT 0,
    stored_count integer NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, item_index)
);
