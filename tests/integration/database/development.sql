-- The schema of a database that was migrated with commit e18be48, the last before 0001_initial.sql replaced the services'
-- migrations: pg_dump without settings, comments and empty tables' rows.
CREATE FUNCTION blank_answers() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    WITH blanked AS (
        UPDATE messages SET content = '', citations = '[]'
        WHERE document_ids && (SELECT array_agg(document_id) FROM gone)
        RETURNING message_id
    )
    DELETE FROM request_replays USING blanked WHERE request_replays.message_id = blanked.message_id;
    RETURN NULL;
END
$$;

CREATE FUNCTION notify_of_items() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM changed WHERE state IN ('queued', 'done', 'failed', 'cancelled')) THEN
        PERFORM pg_notify('groundline_items', '');
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION record_search_index_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE TABLE api_keys (
    key_id text NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    principals text[] NOT NULL,
    scopes text[] NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    expire_time timestamp with time zone,
    revoke_time timestamp with time zone,
    CONSTRAINT api_keys_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT api_keys_principals_check CHECK ((cardinality(principals) > 0)),
    CONSTRAINT api_keys_scopes_check CHECK ((cardinality(scopes) > 0))
);

CREATE TABLE chunks (
    partition_id bigint NOT NULL,
    chunk_id bigint NOT NULL,
    document_id uuid NOT NULL,
    chunk_index integer NOT NULL,
    original_text text NOT NULL,
    context_annotation text NOT NULL,
    lexical_text text NOT NULL,
    embedding halfvec NOT NULL,
    start_offset integer NOT NULL,
    end_offset integer NOT NULL,
    content_hash bytea DEFAULT '\x'::bytea NOT NULL,
    source_type text NOT NULL,
    metadata jsonb NOT NULL,
    allowed_principals text[] NOT NULL,
    update_time timestamp with time zone NOT NULL,
    signature bytea DEFAULT '\x'::bytea NOT NULL,
    collection_id text,
    siblings_before integer DEFAULT 0 NOT NULL,
    siblings_after integer DEFAULT 0 NOT NULL
)
PARTITION BY LIST (partition_id);
ALTER TABLE ONLY chunks ALTER COLUMN embedding SET STORAGE MAIN;
ALTER TABLE ONLY chunks ALTER COLUMN signature SET STORAGE MAIN;
CREATE SEQUENCE chunk_ids;
ALTER SEQUENCE chunk_ids OWNED BY chunks.chunk_id;

CREATE TABLE chunk_partitions (
    partition_id bigint NOT NULL,
    collection_id text,
    embedding_model text NOT NULL,
    dimensions integer NOT NULL,
    language text NOT NULL,
    lexical_backend text NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    drop_time timestamp with time zone,
    lexical_built_after timestamp with time zone DEFAULT pg_stat_get_bgwriter_stat_reset_time(),
    CONSTRAINT chunk_partitions_dimensions_check CHECK (((dimensions >= 1) AND (dimensions <= 4000)))
);
ALTER TABLE chunk_partitions ALTER COLUMN partition_id ADD GENERATED ALWAYS AS IDENTITY;

CREATE TABLE collections (
    collection_id text NOT NULL,
    name text NOT NULL,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    readers text[] DEFAULT '{}'::text[] NOT NULL,
    writers text[] DEFAULT '{}'::text[] NOT NULL,
    partition_id bigint NOT NULL,
    request_id text,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    update_time timestamp with time zone DEFAULT now() NOT NULL,
    admins text[] DEFAULT '{}'::text[] NOT NULL,
    creator text DEFAULT ''::text NOT NULL,
    CONSTRAINT collections_collection_id_check CHECK ((collection_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'::text))
);

CREATE TABLE context_cache (
    cache_key bytea NOT NULL,
    context text NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE coordinator_page_token_key (
    key bytea NOT NULL
);

CREATE TABLE document_deletions (
    collection_id text NOT NULL,
    request_id text NOT NULL,
    deleted_count integer NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE document_originals (
    document_id uuid NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE ONLY document_originals ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE document_texts (
    document_id uuid NOT NULL,
    part integer NOT NULL,
    text text NOT NULL,
    headings jsonb
);

CREATE TABLE documents (
    document_id uuid DEFAULT gen_random_uuid() NOT NULL,
    collection_id text NOT NULL,
    uri text NOT NULL,
    source_type text NOT NULL,
    title text NOT NULL,
    mime_type text NOT NULL,
    content_hash bytea NOT NULL,
    ingestion_hash bytea NOT NULL,
    size_bytes integer NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    allowed_principals text[] DEFAULT '{}'::text[] NOT NULL,
    state text NOT NULL,
    chunk_count integer DEFAULT 0 NOT NULL,
    failure jsonb,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    update_time timestamp with time zone DEFAULT now() NOT NULL,
    input_hash bytea,
    version bigint DEFAULT 1 NOT NULL,
    token_count integer DEFAULT 0 NOT NULL,
    has_original boolean DEFAULT false NOT NULL,
    container_uri text DEFAULT ''::text NOT NULL,
    CONSTRAINT documents_source_type_check CHECK ((source_type = ANY (ARRAY['file'::text, 'object'::text, 'web'::text])))
);

CREATE TABLE embedding_cache (
    model text NOT NULL,
    content_hash bytea NOT NULL,
    embedding halfvec NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE import_batches (
    collection_id text NOT NULL,
    batch integer NOT NULL,
    document_count integer NOT NULL,
    added_count integer NOT NULL,
    byte_count bigint NOT NULL,
    chunk_count integer NOT NULL,
    unchanged_count integer NOT NULL,
    failures jsonb DEFAULT '[]'::jsonb NOT NULL
);

CREATE TABLE imports (
    collection_id text NOT NULL,
    partition_id bigint NOT NULL,
    files jsonb NOT NULL,
    copied_from bigint,
    lexical_built_after timestamp with time zone,
    create_time timestamp with time zone DEFAULT now() NOT NULL
);
CREATE SEQUENCE ingestion_queue;

CREATE TABLE ingestion_items (
    job_id uuid NOT NULL,
    item_index integer NOT NULL,
    uri text NOT NULL,
    document_id uuid,
    state text NOT NULL,
    outcome text,
    failure jsonb,
    attempts integer DEFAULT 0 NOT NULL,
    parsed_count integer DEFAULT 0 NOT NULL,
    contextualized_count integer DEFAULT 0 NOT NULL,
    embedded_count integer DEFAULT 0 NOT NULL,
    stored_count integer DEFAULT 0 NOT NULL,
    collection_id text,
    queue_id bigint DEFAULT nextval('ingestion_queue'::regclass) NOT NULL,
    input jsonb,
    lease_id uuid,
    lease_until timestamp with time zone,
    available_time timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    forgiven_attempts integer DEFAULT 0 NOT NULL,
    prompt_tokens integer DEFAULT 0 NOT NULL,
    cached_tokens integer DEFAULT 0 NOT NULL,
    output_tokens integer DEFAULT 0 NOT NULL,
    change_time timestamp with time zone DEFAULT now() NOT NULL,
    start_time timestamp with time zone,
    end_time timestamp with time zone,
    crawl jsonb,
    is_page boolean DEFAULT false NOT NULL,
    lease_seconds double precision,
    is_alone boolean DEFAULT false NOT NULL,
    is_suspect boolean DEFAULT false NOT NULL,
    source_id uuid,
    embedding_tokens integer DEFAULT 0 NOT NULL,
    dry_crawl jsonb,
    member_count integer DEFAULT 0 NOT NULL,
    dry_source_id uuid
);

CREATE TABLE ingestion_jobs (
    job_id uuid DEFAULT gen_random_uuid() NOT NULL,
    collection_id text NOT NULL,
    state text NOT NULL,
    request_id text,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    start_time timestamp with time zone,
    end_time timestamp with time zone,
    kind text DEFAULT 'ingest'::text NOT NULL,
    cancel_time timestamp with time zone,
    partition_id bigint,
    settings jsonb,
    is_finishing boolean DEFAULT false NOT NULL,
    principals text[] DEFAULT '{}'::text[] NOT NULL,
    deleted_count integer DEFAULT 0 NOT NULL,
    is_announced boolean DEFAULT false NOT NULL,
    is_dry_run boolean DEFAULT false NOT NULL,
    CONSTRAINT ingestion_jobs_kind_check CHECK ((kind = ANY (ARRAY['ingest'::text, 'reindex'::text])))
);

CREATE TABLE ingestion_payloads (
    job_id uuid NOT NULL,
    item_index integer NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE ONLY ingestion_payloads ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE ingestor_page_token_key (
    key bytea NOT NULL
);

CREATE TABLE left_partitions (
    partition_id bigint NOT NULL,
    collection_id text NOT NULL,
    moved_to bigint,
    drop_time timestamp with time zone NOT NULL
);

CREATE TABLE messages (
    thread_id uuid NOT NULL,
    message_index integer NOT NULL,
    message_id uuid NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    sources jsonb DEFAULT '[]'::jsonb NOT NULL,
    citations jsonb DEFAULT '[]'::jsonb NOT NULL,
    usage jsonb DEFAULT '{}'::jsonb NOT NULL,
    finish_reason text,
    model text DEFAULT ''::text NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    document_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    CONSTRAINT messages_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text])))
);

CREATE TABLE reindexed_documents (
    partition_id bigint NOT NULL,
    document_id uuid NOT NULL,
    version bigint NOT NULL,
    ingestion_hash bytea NOT NULL,
    chunk_count integer NOT NULL,
    token_count integer NOT NULL
);

CREATE TABLE request_replays (
    owner text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    message_id uuid NOT NULL,
    thread_id uuid,
    completed jsonb,
    status jsonb,
    expire_time timestamp with time zone NOT NULL
);

CREATE TABLE schema_migrations (
    service text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    apply_time timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE search_index_changes (
    change_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    chunk_id bigint NOT NULL,
    change_time timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    failure text,
    available_time timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
ALTER TABLE search_index_changes ALTER COLUMN change_id ADD GENERATED ALWAYS AS IDENTITY;

CREATE TABLE search_index_partitions (
    partition_id bigint NOT NULL,
    embedding_model text NOT NULL,
    dimensions integer NOT NULL,
    fill_position bigint DEFAULT 0,
    filled_count bigint DEFAULT 0 NOT NULL,
    fill_time timestamp with time zone,
    fill_end bigint
);

CREATE VIEW search_index_coverage AS
 SELECT partition_id,
    (fill_position IS NULL) AS is_filled,
    ( SELECT c.change_time
           FROM search_index_changes c
          WHERE (c.partition_id = p.partition_id)
          ORDER BY c.change_id
         LIMIT 1) AS behind_since
   FROM search_index_partitions p;

CREATE TABLE seen_pages (
    source_id uuid NOT NULL,
    url text NOT NULL,
    uri text NOT NULL,
    version text NOT NULL,
    etag text NOT NULL,
    last_modified text NOT NULL,
    links text[] NOT NULL,
    read_time timestamp with time zone NOT NULL,
    seen_time timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE source_documents (
    collection_id text NOT NULL,
    uri text NOT NULL,
    source_id uuid NOT NULL,
    version text NOT NULL,
    job_id uuid NOT NULL
);

CREATE TABLE sources (
    source_id uuid NOT NULL,
    collection_id text NOT NULL,
    name text NOT NULL,
    definition jsonb NOT NULL,
    principals text[] NOT NULL,
    interval_seconds integer NOT NULL,
    next_run_time timestamp with time zone,
    cursor text DEFAULT ''::text NOT NULL,
    last_job_id uuid,
    create_time timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE threads (
    thread_id uuid NOT NULL,
    owner text NOT NULL,
    title text NOT NULL,
    create_time timestamp with time zone DEFAULT now() NOT NULL,
    update_time timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE token_usage (
    owner text NOT NULL,
    day date NOT NULL,
    tokens bigint NOT NULL
);

CREATE TABLE webhook_deliveries (
    delivery_id uuid NOT NULL,
    collection_id text NOT NULL,
    job_id uuid NOT NULL,
    url text NOT NULL,
    body text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_time timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY chunks ALTER COLUMN chunk_id SET DEFAULT nextval('chunk_ids'::regclass);
ALTER TABLE ONLY api_keys ADD CONSTRAINT api_keys_hash_key UNIQUE (hash);
ALTER TABLE ONLY api_keys ADD CONSTRAINT api_keys_pkey PRIMARY KEY (key_id);
ALTER TABLE ONLY chunk_partitions ADD CONSTRAINT chunk_partitions_pkey PRIMARY KEY (partition_id);
ALTER TABLE ONLY chunks ADD CONSTRAINT chunks_pkey PRIMARY KEY (partition_id, chunk_id);
ALTER TABLE ONLY collections ADD CONSTRAINT collections_pkey PRIMARY KEY (collection_id);
ALTER TABLE ONLY context_cache ADD CONSTRAINT context_cache_pkey PRIMARY KEY (cache_key);
ALTER TABLE ONLY document_deletions ADD CONSTRAINT document_deletions_pkey PRIMARY KEY (collection_id, request_id);
ALTER TABLE ONLY document_originals ADD CONSTRAINT document_originals_pkey PRIMARY KEY (document_id, part);
ALTER TABLE ONLY document_texts ADD CONSTRAINT document_texts_pkey PRIMARY KEY (document_id, part);
ALTER TABLE ONLY documents ADD CONSTRAINT documents_collection_id_uri_key UNIQUE (collection_id, uri);
ALTER TABLE ONLY documents ADD CONSTRAINT documents_pkey PRIMARY KEY (document_id);
ALTER TABLE ONLY embedding_cache ADD CONSTRAINT embedding_cache_pkey PRIMARY KEY (model, content_hash);
ALTER TABLE ONLY import_batches ADD CONSTRAINT import_batches_pkey PRIMARY KEY (collection_id, batch);
ALTER TABLE ONLY imports ADD CONSTRAINT imports_pkey PRIMARY KEY (collection_id);
ALTER TABLE ONLY ingestion_items ADD CONSTRAINT ingestion_items_pkey PRIMARY KEY (job_id, item_index);
ALTER TABLE ONLY ingestion_jobs ADD CONSTRAINT ingestion_jobs_collection_id_request_id_key UNIQUE (collection_id, request_id);
ALTER TABLE ONLY ingestion_jobs ADD CONSTRAINT ingestion_jobs_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY ingestion_payloads ADD CONSTRAINT ingestion_payloads_pkey PRIMARY KEY (job_id, item_index, part);
ALTER TABLE ONLY left_partitions ADD CONSTRAINT left_partitions_pkey PRIMARY KEY (partition_id, collection_id);
ALTER TABLE ONLY messages ADD CONSTRAINT messages_message_id_key UNIQUE (message_id);
ALTER TABLE ONLY messages ADD CONSTRAINT messages_pkey PRIMARY KEY (thread_id, message_index);
ALTER TABLE ONLY reindexed_documents ADD CONSTRAINT reindexed_documents_pkey PRIMARY KEY (partition_id, document_id);
ALTER TABLE ONLY request_replays ADD CONSTRAINT request_replays_pkey PRIMARY KEY (owner, request_id);
ALTER TABLE ONLY schema_migrations ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (service, version);
ALTER TABLE ONLY search_index_changes ADD CONSTRAINT search_index_changes_pkey PRIMARY KEY (change_id);
ALTER TABLE ONLY search_index_partitions ADD CONSTRAINT search_index_partitions_pkey PRIMARY KEY (partition_id);
ALTER TABLE ONLY seen_pages ADD CONSTRAINT seen_pages_pkey PRIMARY KEY (source_id, url);
ALTER TABLE ONLY source_documents ADD CONSTRAINT source_documents_pkey PRIMARY KEY (collection_id, uri);
ALTER TABLE ONLY sources ADD CONSTRAINT sources_collection_id_name_key UNIQUE (collection_id, name);
ALTER TABLE ONLY sources ADD CONSTRAINT sources_pkey PRIMARY KEY (source_id);
ALTER TABLE ONLY threads ADD CONSTRAINT threads_pkey PRIMARY KEY (thread_id);
ALTER TABLE ONLY token_usage ADD CONSTRAINT token_usage_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY webhook_deliveries ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (delivery_id);
CREATE INDEX chunk_partitions_collection_id_idx ON chunk_partitions USING btree (collection_id);
CREATE UNIQUE INDEX chunk_partitions_shared ON chunk_partitions USING btree (embedding_model, dimensions, language, lexical_backend) WHERE (collection_id IS NULL);
CREATE INDEX chunks_document_id_chunk_index_idx ON ONLY chunks USING btree (document_id, chunk_index);
CREATE INDEX chunks_metadata ON ONLY chunks USING gin (metadata jsonb_path_ops);
CREATE INDEX chunks_principals ON ONLY chunks USING gin (allowed_principals);
CREATE INDEX collections_partition ON collections USING btree (partition_id);
CREATE UNIQUE INDEX collections_request ON collections USING btree (creator, request_id);
CREATE INDEX context_cache_context ON context_cache USING hash (context);
CREATE INDEX context_cache_create_time_idx ON context_cache USING btree (create_time);
CREATE UNIQUE INDEX coordinator_page_token_key_single ON coordinator_page_token_key USING btree ((true));
CREATE INDEX documents_container ON documents USING btree (collection_id, container_uri) WHERE (container_uri <> ''::text);
CREATE INDEX embedding_cache_create_time_idx ON embedding_cache USING btree (create_time);
CREATE INDEX ingestion_items_leased ON ingestion_items USING btree (lease_until) WHERE (lease_id IS NOT NULL);
CREATE UNIQUE INDEX ingestion_items_page ON ingestion_items USING btree (job_id, uri) WHERE is_page;
CREATE INDEX ingestion_items_pending ON ingestion_items USING btree (queue_id) WHERE (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text]));
CREATE INDEX ingestion_items_pending_crawl ON ingestion_items USING btree (queue_id) WHERE ((crawl IS NOT NULL) AND (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text])));
CREATE INDEX ingestion_items_pending_dry_crawl ON ingestion_items USING btree (queue_id) WHERE ((dry_crawl IS NOT NULL) AND (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text])));
CREATE INDEX ingestion_items_pending_dry_run ON ingestion_items USING btree (dry_source_id) WHERE ((dry_source_id IS NOT NULL) AND (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text])));
CREATE INDEX ingestion_items_pending_job ON ingestion_items USING btree (job_id, queue_id) WHERE (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text]));
CREATE INDEX ingestion_items_pending_run ON ingestion_items USING btree (source_id) WHERE ((source_id IS NOT NULL) AND (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text])));
CREATE INDEX ingestion_items_pending_uri ON ingestion_items USING btree (collection_id, uri, queue_id) WHERE (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text]));
CREATE INDEX ingestion_items_retryable ON ingestion_items USING btree (collection_id, uri) WHERE (state = ANY (ARRAY['failed'::text, 'cancelled'::text]));
CREATE INDEX ingestion_items_suspect ON ingestion_items USING btree (queue_id) WHERE (is_suspect AND (state <> ALL (ARRAY['done'::text, 'failed'::text, 'cancelled'::text])));
CREATE INDEX ingestion_jobs_create_time_job_id_idx ON ingestion_jobs USING btree (create_time DESC, job_id DESC);
CREATE UNIQUE INDEX ingestion_jobs_reindex ON ingestion_jobs USING btree (collection_id) WHERE ((kind = 'reindex'::text) AND (end_time IS NULL));
CREATE INDEX ingestion_jobs_unannounced ON ingestion_jobs USING btree (job_id) WHERE (NOT is_announced);
CREATE UNIQUE INDEX ingestor_page_token_key_single ON ingestor_page_token_key USING btree ((true));
CREATE INDEX left_partitions_drop_time_idx ON left_partitions USING btree (drop_time);
CREATE INDEX messages_document_ids ON messages USING gin (document_ids);
CREATE INDEX request_replays_expire_time_idx ON request_replays USING btree (expire_time);
CREATE INDEX request_replays_thread_id_idx ON request_replays USING btree (thread_id);
CREATE INDEX search_index_changes_partition_id_change_id_idx ON search_index_changes USING btree (partition_id, change_id);
CREATE INDEX search_index_changes_refused ON search_index_changes USING btree (partition_id, chunk_id) WHERE (failure IS NOT NULL);
CREATE INDEX source_documents_run ON source_documents USING btree (source_id, job_id);
CREATE INDEX sources_due ON sources USING btree (next_run_time) WHERE (next_run_time IS NOT NULL);
CREATE INDEX threads_owner_update_time_thread_id_idx ON threads USING btree (owner, update_time DESC, thread_id);
CREATE INDEX threads_update_time ON threads USING btree (update_time);
CREATE INDEX webhook_deliveries_collection ON webhook_deliveries USING btree (collection_id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries USING btree (next_attempt_time);
CREATE TRIGGER blank_answers AFTER DELETE ON documents REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION blank_answers();
CREATE TRIGGER notify_of_changed_items AFTER UPDATE ON ingestion_items REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION notify_of_items();
CREATE TRIGGER notify_of_new_items AFTER INSERT ON ingestion_items REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION notify_of_items();
ALTER TABLE ONLY chunk_partitions ADD CONSTRAINT chunk_partitions_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY collections ADD CONSTRAINT collections_partition_id_fkey FOREIGN KEY (partition_id) REFERENCES chunk_partitions(partition_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY document_deletions ADD CONSTRAINT document_deletions_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE;
ALTER TABLE ONLY document_originals ADD CONSTRAINT document_originals_document_id_fkey FOREIGN KEY (document_id) REFERENCES documents(document_id) ON DELETE CASCADE;
ALTER TABLE ONLY document_texts ADD CONSTRAINT document_texts_document_id_fkey FOREIGN KEY (document_id) REFERENCES documents(document_id) ON DELETE CASCADE;
ALTER TABLE ONLY documents ADD CONSTRAINT documents_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE;
ALTER TABLE ONLY import_batches ADD CONSTRAINT import_batches_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES imports(collection_id) ON DELETE CASCADE;
ALTER TABLE ONLY ingestion_items ADD CONSTRAINT ingestion_items_job_id_fkey FOREIGN KEY (job_id) REFERENCES ingestion_jobs(job_id) ON DELETE CASCADE;
ALTER TABLE ONLY ingestion_jobs ADD CONSTRAINT ingestion_jobs_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE;
ALTER TABLE ONLY ingestion_payloads ADD CONSTRAINT ingestion_payloads_job_id_item_index_fkey FOREIGN KEY (job_id, item_index) REFERENCES ingestion_items(job_id, item_index) ON DELETE CASCADE;
ALTER TABLE ONLY left_partitions ADD CONSTRAINT left_partitions_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE;
ALTER TABLE ONLY left_partitions ADD CONSTRAINT left_partitions_partition_id_fkey FOREIGN KEY (partition_id) REFERENCES chunk_partitions(partition_id) ON DELETE CASCADE;
ALTER TABLE ONLY messages ADD CONSTRAINT messages_thread_id_fkey FOREIGN KEY (thread_id) REFERENCES threads(thread_id) ON DELETE CASCADE;
ALTER TABLE ONLY reindexed_documents ADD CONSTRAINT reindexed_documents_document_id_fkey FOREIGN KEY (document_id) REFERENCES documents(document_id) ON DELETE CASCADE;
ALTER TABLE ONLY reindexed_documents ADD CONSTRAINT reindexed_documents_partition_id_fkey FOREIGN KEY (partition_id) REFERENCES chunk_partitions(partition_id) ON DELETE CASCADE;
ALTER TABLE ONLY request_replays ADD CONSTRAINT request_replays_thread_id_fkey FOREIGN KEY (thread_id) REFERENCES threads(thread_id) ON DELETE CASCADE;
ALTER TABLE ONLY seen_pages ADD CONSTRAINT seen_pages_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(source_id) ON DELETE CASCADE;
ALTER TABLE ONLY source_documents ADD CONSTRAINT source_documents_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(source_id) ON DELETE CASCADE;
ALTER TABLE ONLY sources ADD CONSTRAINT sources_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE;
ALTER TABLE ONLY webhook_deliveries ADD CONSTRAINT webhook_deliveries_collection_id_fkey FOREIGN KEY (collection_id) REFERENCES collections(collection_id) ON DELETE CASCADE;

INSERT INTO schema_migrations (service, version, name, checksum) VALUES
    ('ingestor', 1, 'initial', '4b4c8b59ae95ca31bf6d89f43c1ed2b55ce28aa9d02ca9e7746cffa0445572f0'),
    ('ingestor', 2, 'durable_jobs', '43ff4fe97d6e4d6bb757fef307388ec39f9701d187c59b367480185a257f2adb'),
    ('ingestor', 3, 'sources', 'e32873949b4d2a1b5fcd98e2dba4e518009633a83f52548b2a6205b130bbf757'),
    ('ingestor', 4, 'vectors_inline', 'fd3d20c3f47f2b5258aa52467efd5e7ff1d7b97e5d4d15cc904cc5a07798fd4b'),
    ('ingestor', 5, 'suspects', 'f000433b29722c13672d19fab1edf1103c1582a07583ce791f1ef7887a42c520'),
    ('ingestor', 6, 'notifications', '67059347452df407d1e531be5725f84eaad4fc1e7a2eb42ea2af97bef5d5b553'),
    ('ingestor', 7, 'signatures', '238a429ca59f999470e17add2ecfe008ccfbe0e21e381d961c36f284c8432905'),
    ('ingestor', 8, 'shared_partitions', 'bc7eb01c05c6765092fcd9e6905a56e66f85dae1f9d4a6ad94a0c6be87d09fa1'),
    ('ingestor', 9, 'metadata_index', '5a0d4fe4ea30b3b2ebe28de935b94b43da663260ab970c0605c096fc994a9bb8'),
    ('ingestor', 10, 'lexical_recovery', 'aff2100d3366b4e501627a9a02780d9d3498060ef120799a8c1d80fe71d504fb'),
    ('ingestor', 11, 'access', 'd77663c5d9c6d6e7ec30fa31912c87d4535b2090081d7c9b45b5ac030e5947a9'),
    ('ingestor', 12, 'originals', 'f27b0ada3957c8d12e10b3b01d757c0d11c78cc243a987308c1d5cbb6db165f2'),
    ('ingestor', 13, 'erasure', '9b2ea82ee6df83ff576ac23a30b73ed6fbe8a4d069b0d53185d35e8b4c8ed583'),
    ('ingestor', 14, 'availability', 'cb55db04e6effb264a4c59f0042d64f4e5fd7beb9b598a7331b939d5bfe6964d'),
    ('ingestor', 15, 'search_index', '6ee21a48c02dfbab41d207dd03d42eea7fd2577be0f657f6c86752f1abbfa49f'),
    ('ingestor', 16, 'parents', '1f6457a6aac82bd3689039a35871573fcdbff2d92852fa72694b30502c6ad35d'),
    ('ingestor', 17, 'fair_leases', 'f2c19b5d63529ec9dd7f439b50ab48545a19212d474a4497062cb37618248af9'),
    ('ingestor', 18, 'imports', '7648c00f624f60df8877fbc1da341512f540f79f36f168257df10a73496cf02f'),
    ('ingestor', 19, 'sources', '1b88aacb0d9b968e9bc22d242352605e82019aec44c8a13db3d2f0ed8b0e1158'),
    ('ingestor', 20, 'embedding_tokens', '7bcebf52593317ad81be1164aa110a1ebf742f1077a8cd09f2e9819eb9df26c6'),
    ('ingestor', 21, 'webhooks', '294417c728a74dd90ae5dd97375deacf987836cf28a98b929bc1d3dd59c047f8'),
    ('ingestor', 22, 'page_token_key', '6e6286f0e4ae20f6da2b57add3b54bcc04113083b8c310a17a6faad77de8ed26'),
    ('ingestor', 23, 'seen_pages', '36494493985903a2912719f7590c8df67ba125258590c036879eb70e9a410cc8'),
    ('ingestor', 24, 'dry_crawls', 'af4da83019ce8c7f356f1d7a8551e24fbe4be364ee5c6b458c8b2c819c494147'),
    ('ingestor', 25, 'members', 'a882948f8ef9be2e97217c623b7e95e972801948cbdab02d95a9b6aedac66342'),
    ('ingestor', 26, 'dry_runs', '0c117cd948cba4b23888822541c9781136deeaa4b6cd9fab189206cb20ee264b'),
    ('ingestor', 27, 'principals_index', '2778bc9cc0be31ed243971644b11c8a8aafc9adac1f7a60f34fd6919becbb4e7'),
    ('ingestor', 28, 'fill_end', '30aac89b4dff23aa022e505ff2d7b92b224b591bd950b1a97513b3fb33a60b87'),
    ('coordinator', 1, 'threads', '55366d3b269050e6a82edfc8bf8e25b0d1560d8c9310fcb854f784c7cd709db4'),
    ('coordinator', 2, 'request_replays', 'fef04d597419f1c820c55c3d778df593e13ed3d0cbf51f4d8b6eaab0481b0370'),
    ('coordinator', 3, 'documents_of_answers', 'c0378b43c5b7f02b24d9f43120d4b6937ecafe07505f5b0ffcbee1dbcb8e3e5e'),
    ('coordinator', 4, 'quotas', 'ce1a22988a7c50ade0fee34ea20338ca26ccc6683a876bbf7acef21679e5636d'),
    ('coordinator', 5, 'page_token_key', 'ab5375c530932bee115e6d64e912802072852ea1f00040c6edff6cf52de03fbe'),
    ('gateway', 1, 'api_keys', '1dc652f87adc67ddd5f8a2ffb43c9a81fd65bcbf4f8953fdc7c33ff7fce73ffa');
