-- Collections, documents, chunks, ingestion jobs, sources, and what feeds a search index outside PostgreSQL.
-- No extension for keyword search is created here: a database holds one of several, and the migrate command creates the
-- configured one.

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
    -- Principals that may change settings and access and delete the collection. Empty: whoever may write.
    admins text[] NOT NULL DEFAULT '{}',
    -- The first principal of the caller that created it, to whom its request_id belongs; empty for a caller without
    -- principals.
    creator text NOT NULL DEFAULT '',
    request_id text,
    -- The partition that is searched and written.
    partition_id bigint NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX collections_request ON collections (creator, request_id);
CREATE INDEX collections_partition ON collections (partition_id);

-- A partition of chunks is embedded by one model and indexed in one language, so that dimension, language and term
-- statistics are its own. Its table is chunks_p<partition_id>. A large collection has one to itself; small ones of the
-- same model, dimensions, language and backend share one, since a search costs by partitions (docs/adr: shared
-- partitions).
CREATE TABLE chunk_partitions (
    partition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Null for a shared partition.
    collection_id text REFERENCES collections ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    embedding_model text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
    language text NOT NULL,
    lexical_backend text NOT NULL,
    -- The server's recovery from an unclean stop after which the keyword index was built. Some backends may lose rows in
    -- such a stop: their index is searched only if there was no recovery since, and workers rebuild the others.
    lexical_built_after timestamptz DEFAULT pg_stat_get_bgwriter_stat_reset_time(),
    create_time timestamptz NOT NULL DEFAULT now(),
    -- When a partition that was replaced is dropped; null for those in use or being built.
    drop_time timestamptz
);
CREATE INDEX ON chunk_partitions (collection_id);
CREATE UNIQUE INDEX chunk_partitions_shared
    ON chunk_partitions (embedding_model, dimensions, language, lexical_backend) WHERE collection_id IS NULL;
ALTER TABLE collections ADD FOREIGN KEY (partition_id)
    REFERENCES chunk_partitions DEFERRABLE INITIALLY DEFERRED;

-- What collections left in a shared partition. Searches that began before still find it there, until drop_time.
CREATE TABLE left_partitions (
    partition_id bigint NOT NULL REFERENCES chunk_partitions ON DELETE CASCADE,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    -- Where the same chunks are now; null if a reindex made others.
    moved_to bigint,
    drop_time timestamptz NOT NULL,
    PRIMARY KEY (partition_id, collection_id)
);
CREATE INDEX ON left_partitions (drop_time);

CREATE TABLE documents (
    document_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    uri text NOT NULL,
    -- The uri of the document that it was found in (a mail, an archive); empty for a document of its own.
    container_uri text NOT NULL DEFAULT '',
    source_type text NOT NULL CHECK (source_type IN ('file', 'object', 'web')),
    title text NOT NULL,
    mime_type text NOT NULL,
    -- SHA-256 of what was handed in.
    content_hash bytea NOT NULL,
    -- SHA-256 of what was handed in with all that decides its text.
    input_hash bytea,
    -- SHA-256 of all that decides the chunks: input_hash, title, settings, embedding model, version of the pipeline.
    ingestion_hash bytea NOT NULL,
    -- Raised whenever chunks or what they repeat of the document change; a reindex sees by it what it has to redo.
    version bigint NOT NULL DEFAULT 1,
    size_bytes integer NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    -- An empty array is no restriction beyond the collection's.
    allowed_principals text[] NOT NULL DEFAULT '{}',
    has_original boolean NOT NULL DEFAULT false,
    state text NOT NULL,
    -- IngestionFailure: {"stage", "reason", "message"}; null unless the last ingestion failed.
    failure jsonb,
    chunk_count integer NOT NULL DEFAULT 0,
    -- Tokens of its chunks, by the embedding model.
    token_count integer NOT NULL DEFAULT 0,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    UNIQUE (collection_id, uri)
);
CREATE INDEX documents_container ON documents (collection_id, container_uri) WHERE container_uri <> '';

-- The extracted text, in parts, from which a reindex makes chunks. Headings are on part 0.
CREATE TABLE document_texts (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    part integer NOT NULL,
    text text NOT NULL,
    headings jsonb,
    PRIMARY KEY (document_id, part)
);

-- Documents as they were handed in, if their collection keeps them, so that a citation opens the page it comes from.
-- Parts as in ingestion_payloads.
CREATE TABLE document_originals (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    part integer NOT NULL,
    data bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (document_id, part)
);

-- The count that a retry of a deletion by filter with the same request_id gets again.
CREATE TABLE document_deletions (
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    request_id text NOT NULL,
    deleted_count integer NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (collection_id, request_id)
);

-- Not an identity column: before PostgreSQL 17 partitions do not inherit those.
CREATE SEQUENCE chunk_ids;

-- source_type, metadata, allowed_principals and update_time repeat the document's, so that a search filters without a
-- join.
CREATE TABLE chunks (
    partition_id bigint NOT NULL,
    chunk_id bigint NOT NULL DEFAULT nextval('chunk_ids'),
    -- Null in rows of partitions of one collection that were written before partitions were shared.
    collection_id text,
    document_id uuid NOT NULL,
    chunk_index integer NOT NULL,
    -- Chunks of one parent are searched one by one and read together: the number of its chunks before and after this one.
    siblings_before integer NOT NULL DEFAULT 0,
    siblings_after integer NOT NULL DEFAULT 0,
    -- original_text with context_annotation before it is what was embedded.
    original_text text NOT NULL,
    context_annotation text NOT NULL,
    -- What BM25 indexes: context, text, identifier sub-tokens.
    lexical_text text NOT NULL,
    -- In its row, and texts out of line first: without an HNSW index a search reads every vector, and one that is stored
    -- out of line (as those of 1,536 dimensions would be) takes an index scan each.
    embedding halfvec STORAGE MAIN NOT NULL,
    -- Signature by which a search finds near-duplicates without reading texts (groundline-signatures), 136 bytes; in its
    -- row, since a search reads it of every candidate. A chunk with an empty one is nobody's duplicate.
    signature bytea STORAGE MAIN NOT NULL DEFAULT '',
    -- In the document's extracted text, in code points: extracted[start_offset:end_offset] = original_text.
    start_offset integer NOT NULL,
    end_offset integer NOT NULL,
    -- No longer written or read. It stays because a table that an unfinished import fills has it, and could not become
    -- a partition without it.
    content_hash bytea NOT NULL DEFAULT '',
    source_type text NOT NULL,
    metadata jsonb NOT NULL,
    allowed_principals text[] NOT NULL,
    update_time timestamptz NOT NULL,
    PRIMARY KEY (partition_id, chunk_id)
) PARTITION BY LIST (partition_id);
ALTER SEQUENCE chunk_ids OWNED BY chunks.chunk_id;
CREATE INDEX ON chunks (document_id, chunk_index);
-- Filters ask by containment.
CREATE INDEX chunks_metadata ON chunks USING gin (metadata jsonb_path_ops);
-- By this the exact search finds the few chunks that a caller may read.
CREATE INDEX chunks_principals ON chunks USING gin (allowed_principals);

CREATE TABLE ingestion_jobs (
    job_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    kind text NOT NULL DEFAULT 'ingest' CHECK (kind IN ('ingest', 'reindex')),
    -- A reindex's state and end_time are stored; those of an ingestion follow from its items.
    state text NOT NULL,
    request_id text,
    -- Principals of the caller that handed the job in, by whose rights its documents are written; the first one sees all
    -- its items.
    principals text[] NOT NULL DEFAULT '{}',
    is_dry_run boolean NOT NULL DEFAULT false,
    deleted_count integer NOT NULL DEFAULT 0,
    -- The partition that a reindex builds, the settings it builds by, and whether it only waits for the last changes, so
    -- that other items of the collection wait for it.
    partition_id bigint,
    settings jsonb,
    is_finishing boolean NOT NULL DEFAULT false,
    -- Whether the webhooks of its collection have been told of its end, or there were none.
    is_announced boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL DEFAULT now(),
    start_time timestamptz,
    end_time timestamptz,
    cancel_time timestamptz,
    UNIQUE (collection_id, request_id)
);
CREATE INDEX ON ingestion_jobs (create_time DESC, job_id DESC);
CREATE UNIQUE INDEX ingestion_jobs_reindex ON ingestion_jobs (collection_id)
    WHERE kind = 'reindex' AND end_time IS NULL;
CREATE INDEX ingestion_jobs_unannounced ON ingestion_jobs (job_id) WHERE NOT is_announced;

-- Order of hand-in over all jobs: of two items with one uri the later one wins.
CREATE SEQUENCE ingestion_queue;

-- A document, a crawl or a run of a source. One column says which; the collection_id of the last two is null, so that
-- workers of a release that does not know their kind pass them over.
CREATE TABLE ingestion_items (
    job_id uuid NOT NULL REFERENCES ingestion_jobs ON DELETE CASCADE,
    item_index integer NOT NULL,
    collection_id text,
    queue_id bigint NOT NULL DEFAULT nextval('ingestion_queue'),
    uri text NOT NULL,
    document_id uuid,
    -- What was handed in, without its content, which is in ingestion_payloads; null for an item of a reindex.
    input jsonb,
    -- What to crawl.
    crawl jsonb,
    -- What to crawl without taking anything in.
    dry_crawl jsonb,
    -- The source whose run the item is.
    source_id uuid,
    -- The source whose dry run the item is: nothing is taken in, deleted or remembered.
    dry_source_id uuid,
    -- Whether a crawl found it; then it is the job's only one with its uri.
    is_page boolean NOT NULL DEFAULT false,
    state text NOT NULL,
    outcome text,
    failure jsonb,
    attempts integer NOT NULL DEFAULT 0,
    -- Attempts before the last RetryJob, which do not count against the maximum.
    forgiven_attempts integer NOT NULL DEFAULT 0,
    lease_id uuid,
    lease_until timestamptz,
    -- The lease's term, by which it can be judged whatever is done to the clock; null without a lease.
    lease_seconds double precision,
    -- Not before this; set by back-off. An item that was never postponed is available even if the clock is set back.
    available_time timestamptz NOT NULL DEFAULT '-infinity',
    -- Whether its worker began nothing beside it.
    is_alone boolean NOT NULL DEFAULT false,
    -- Whether a worker was lost that had it: it is worked on alone from then on.
    is_suspect boolean NOT NULL DEFAULT false,
    parsed_count integer NOT NULL DEFAULT 0,
    contextualized_count integer NOT NULL DEFAULT 0,
    embedded_count integer NOT NULL DEFAULT 0,
    stored_count integer NOT NULL DEFAULT 0,
    -- Items that were made of the files within its document.
    member_count integer NOT NULL DEFAULT 0,
    prompt_tokens integer NOT NULL DEFAULT 0,
    cached_tokens integer NOT NULL DEFAULT 0,
    output_tokens integer NOT NULL DEFAULT 0,
    -- Tokens that the embedding model read, beside those of its contexts.
    embedding_tokens integer NOT NULL DEFAULT 0,
    change_time timestamptz NOT NULL DEFAULT now(),
    start_time timestamptz,
    end_time timestamptz,
    PRIMARY KEY (job_id, item_index)
);
CREATE UNIQUE INDEX ingestion_items_page ON ingestion_items (job_id, uri) WHERE is_page;
CREATE INDEX ingestion_items_leased ON ingestion_items (lease_until) WHERE lease_id IS NOT NULL;
CREATE INDEX ingestion_items_pending ON ingestion_items (queue_id)
    WHERE state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_pending_uri ON ingestion_items (collection_id, uri, queue_id)
    WHERE state NOT IN ('done', 'failed', 'cancelled');
-- Workers that hold a client's share of items look for others' jobs: by this without reading all that waits.
CREATE INDEX ingestion_items_pending_job ON ingestion_items (job_id, queue_id)
    WHERE state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_pending_crawl ON ingestion_items (queue_id)
    WHERE crawl IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_pending_dry_crawl ON ingestion_items (queue_id)
    WHERE dry_crawl IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_pending_run ON ingestion_items (source_id)
    WHERE source_id IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_pending_dry_run ON ingestion_items (dry_source_id)
    WHERE dry_source_id IS NOT NULL AND state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX ingestion_items_suspect ON ingestion_items (queue_id)
    WHERE is_suspect AND state NOT IN ('done', 'failed', 'cancelled');
-- Only these keep what was handed in, which is found by this when the document is deleted.
CREATE INDEX ingestion_items_retryable ON ingestion_items (collection_id, uri) WHERE state IN ('failed', 'cancelled');

-- Tells workers that there may be something to do, so that they need not ask: an item waits, or one has ended, for which
-- another of its uri, its job or its partition's index may have waited.
CREATE FUNCTION notify_of_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed WHERE state IN ('queued', 'done', 'failed', 'cancelled')) THEN
        PERFORM pg_notify('groundline_items', '');
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER notify_of_new_items AFTER INSERT ON ingestion_items
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION notify_of_items();
CREATE TRIGGER notify_of_changed_items AFTER UPDATE ON ingestion_items
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION notify_of_items();

-- Content handed in, in parts, so that no side ever holds copies of a large one. Gone when the item is done, and some
-- time after it failed or was cancelled, until when it can be retried.
CREATE TABLE ingestion_payloads (
    job_id uuid NOT NULL,
    item_index integer NOT NULL,
    part integer NOT NULL,
    -- Mostly compressed formats, or text that is soon gone: compression is not worth the time.
    data bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (job_id, item_index, part),
    FOREIGN KEY (job_id, item_index) REFERENCES ingestion_items ON DELETE CASCADE
);

-- The version of each document in a partition that is being built, with the hash that the document will have.
CREATE TABLE reindexed_documents (
    partition_id bigint NOT NULL REFERENCES chunk_partitions ON DELETE CASCADE,
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    version bigint NOT NULL,
    ingestion_hash bytea NOT NULL,
    chunk_count integer NOT NULL,
    token_count integer NOT NULL,
    PRIMARY KEY (partition_id, document_id)
);

CREATE TABLE embedding_cache (
    model text NOT NULL,
    -- SHA-256 of the embedded text.
    content_hash bytea NOT NULL,
    embedding halfvec NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, content_hash)
);
CREATE INDEX ON embedding_cache (create_time);

CREATE TABLE context_cache (
    -- SHA-256 of document, chunk, prompt and model.
    cache_key bytea PRIMARY KEY,
    context text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON context_cache (create_time);
-- A document's contexts are found by this when it is deleted.
CREATE INDEX context_cache_context ON context_cache USING hash (context);

-- Bulk loads of files (`groundline import`), each into a table of chunks beside the collection's partition, which takes
-- its place when it is complete. Its documents wait in tables of its own (imported_p<partition_id>_…).
CREATE TABLE imports (
    -- No foreign key: its tables have to be dropped when the collection is gone.
    collection_id text PRIMARY KEY,
    -- Of the table that it fills, chunks_p<partition_id>: no partition, and not in chunk_partitions, before the switch.
    partition_id bigint NOT NULL,
    -- Name, size and a hash of each file, in their order: an import goes on with the same files only.
    files jsonb NOT NULL,
    -- The partition from which chunks of other documents were copied; null before.
    copied_from bigint,
    -- As in chunk_partitions, once the keyword index is there.
    lexical_built_after timestamptz,
    create_time timestamptz NOT NULL DEFAULT now()
);

-- What has been loaded: a batch's rows and its row here are written in one transaction.
CREATE TABLE import_batches (
    collection_id text NOT NULL REFERENCES imports ON DELETE CASCADE,
    batch integer NOT NULL,
    document_count integer NOT NULL,
    -- Documents that were not in the collection, and the bytes by which its documents grow.
    added_count integer NOT NULL,
    byte_count bigint NOT NULL,
    chunk_count integer NOT NULL,
    unchanged_count integer NOT NULL,
    -- Records that are wrong: {"file", "line", "field", "description"}.
    failures jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (collection_id, batch)
);

-- Sources, whose runs are jobs: an item of the job goes through the source, and what it finds are further items.
CREATE TABLE sources (
    source_id uuid PRIMARY KEY,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    name text NOT NULL,
    -- The contract's DocumentSource, without what follows from other columns.
    definition jsonb NOT NULL,
    -- Of its creator, by whose rights runs act.
    principals text[] NOT NULL,
    interval_seconds integer NOT NULL,
    next_run_time timestamptz,
    -- Up to where the source was read, in the connector's own words.
    cursor text NOT NULL DEFAULT '',
    last_job_id uuid,
    create_time timestamptz NOT NULL DEFAULT now(),
    UNIQUE (collection_id, name)
);
CREATE INDEX sources_due ON sources (next_run_time) WHERE next_run_time IS NOT NULL;

-- What sources have brought, whether or not it could be read.
CREATE TABLE source_documents (
    collection_id text NOT NULL,
    uri text NOT NULL,
    source_id uuid NOT NULL REFERENCES sources ON DELETE CASCADE,
    -- By which the connector tells whether it has changed; empty: to be read again.
    version text NOT NULL,
    -- The last run that found it.
    job_id uuid NOT NULL,
    PRIMARY KEY (collection_id, uri)
);
CREATE INDEX source_documents_run ON source_documents (source_id, job_id);

-- What runs of web sources saw of pages, so that a page that has not changed is neither sent nor read again.
CREATE TABLE seen_pages (
    source_id uuid NOT NULL REFERENCES sources ON DELETE CASCADE,
    url text NOT NULL,
    -- Of its document; empty for a page that asks to be left out.
    uri text NOT NULL,
    -- A hash of its content; current while source_documents has the same.
    version text NOT NULL,
    etag text NOT NULL,
    last_modified text NOT NULL,
    -- Where it leads, on its host.
    links text[] NOT NULL,
    read_time timestamptz NOT NULL,
    -- When a run last came by it.
    seen_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source_id, url)
);

-- Notices on their way. A row goes when it was delivered, or tried too often.
CREATE TABLE webhook_deliveries (
    delivery_id uuid PRIMARY KEY,
    collection_id text NOT NULL REFERENCES collections ON DELETE CASCADE,
    job_id uuid NOT NULL,
    -- Of one of the collection's webhooks; the notice goes nowhere once it has none of this URL.
    url text NOT NULL,
    body text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    -- While a worker is at it, when another takes it over.
    next_attempt_time timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_time);
CREATE INDEX webhook_deliveries_collection ON webhook_deliveries (collection_id);

-- A search index outside PostgreSQL has an object for each row of chunks: of the same key (partition_id, chunk_id), since
-- moved chunks keep their ids, and searched by partition_id, so that a reindex is switched there in the moment in which
-- collections.partition_id is.

-- The outbox: chunks that were written, changed or deleted since the index took them in. What to do follows from whether
-- the chunk is there. A trigger on chunks writes it in the transaction of the change, whoever makes it: this release,
-- another one, a bulk load. It is made when feeding begins and dropped when it ends; without it nothing is written.
CREATE TABLE search_index_changes (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL,
    chunk_id bigint NOT NULL,
    change_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- How often the index refused this object alone, and why it did last.
    attempts integer NOT NULL DEFAULT 0,
    failure text,
    -- Not before this; 'infinity' for one that is set aside until somebody has it tried again.
    available_time timestamptz NOT NULL DEFAULT '-infinity'
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX ON search_index_changes (partition_id, change_id);
CREATE INDEX search_index_changes_refused ON search_index_changes (partition_id, chunk_id) WHERE failure IS NOT NULL;

CREATE FUNCTION record_search_index_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO search_index_changes (partition_id, chunk_id) VALUES (OLD.partition_id, OLD.chunk_id);
    ELSE
        INSERT INTO search_index_changes (partition_id, chunk_id) VALUES (NEW.partition_id, NEW.chunk_id);
    END IF;
    -- Sent once for a transaction, however often it is called.
    PERFORM pg_notify('groundline_search_index', '');
    RETURN NULL;
END
$$;

-- Partitions that are fed. No foreign key: a row whose partition is gone says that its objects are still to be deleted.
CREATE TABLE search_index_partitions (
    partition_id bigint PRIMARY KEY,
    -- Where the index keeps the objects, as in chunk_partitions.
    embedding_model text NOT NULL,
    dimensions integer NOT NULL,
    -- The last chunk that was read from the table to fill the index, in the order of chunk_id; null when all were.
    fill_position bigint DEFAULT 0,
    -- The last chunk that the fill reads: later ones are in the outbox, and would be taken in twice. Null if no fill is
    -- under way.
    fill_end bigint,
    filled_count bigint NOT NULL DEFAULT 0,
    fill_time timestamptz
);

-- The watermark of each partition: one without a row is not in the index. A partition is complete there up to the change
-- before `behind_since`, and up to now if that is null, provided that it is filled.
CREATE VIEW search_index_coverage AS
SELECT partition_id, fill_position IS NULL AS is_filled, (
    SELECT change_time FROM search_index_changes AS c
    WHERE c.partition_id = p.partition_id ORDER BY change_id LIMIT 1
) AS behind_since
FROM search_index_partitions AS p;

-- What the ingestor signs page tokens with: 244 random bits, by PostgreSQL's own means. A row that is changed makes all
-- tokens invalid, once the ingestor has been restarted.
CREATE TABLE ingestor_page_token_key (key bytea NOT NULL);
CREATE UNIQUE INDEX ingestor_page_token_key_single ON ingestor_page_token_key ((true));
INSERT INTO ingestor_page_token_key
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
