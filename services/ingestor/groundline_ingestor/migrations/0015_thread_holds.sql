-- Threads that must not be deleted, nor the documents that their answers rest on. The coordinator's triggers refuse both,
-- whichever version deletes; older versions neither read nor write it.

CREATE TABLE thread_holds (
    thread_id uuid NOT NULL,
    -- A collection of whose documents the thread cites one, and whose administrators hold it.
    collection_id text NOT NULL REFERENCES collections,
    reason text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, collection_id)
);
CREATE INDEX ON thread_holds (collection_id, thread_id);

CREATE OR REPLACE FUNCTION refuse_held_collection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM legal_holds h WHERE h.collection_id = OLD.collection_id)
        OR EXISTS (SELECT FROM thread_holds h WHERE h.collection_id = OLD.collection_id)
    THEN
        RAISE EXCEPTION 'the collection %, or a document of it, is under a legal hold', OLD.collection_id
            USING HINT = 'LEGAL_HOLD';
    END IF;
    RETURN OLD;
END
$$;
