-- Some rows for development.sql.
INSERT INTO collections (collection_id, name, partition_id) VALUES ('kept', 'Kept', 7);
INSERT INTO chunk_partitions (partition_id, collection_id, embedding_model, dimensions, language, lexical_backend)
    OVERRIDING SYSTEM VALUE VALUES (7, 'kept', 'model', 2, 'english', 'pg_search');
CREATE TABLE chunks_p7 PARTITION OF chunks FOR VALUES IN (7);
INSERT INTO documents (collection_id, uri, source_type, title, mime_type, content_hash, ingestion_hash, size_bytes, state)
    VALUES ('kept', 'a.txt', 'file', 'A', 'text/plain', '', '', 1, 'done');
INSERT INTO chunks (partition_id, collection_id, document_id, chunk_index, original_text, context_annotation,
        lexical_text, embedding, start_offset, end_offset, source_type, metadata, allowed_principals, update_time)
    SELECT 7, 'kept', document_id, 0, 'text', '', 'text', '[1,2]', 0, 4, 'file', '{}', '{}', now() FROM documents;
INSERT INTO threads (thread_id, owner, title) VALUES (gen_random_uuid(), 'user:a', 'Thread');
INSERT INTO ingestor_page_token_key VALUES ('ingestor');
INSERT INTO coordinator_page_token_key VALUES ('coordinator');
