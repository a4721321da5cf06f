-- Documents and collections that must not be deleted. Older versions do not know them, but cannot delete what is held.

CREATE TABLE legal_holds (
    collection_id text NOT NULL REFERENCES collections,
    -- Null: the whole collection.
    document_id uuid,
    reason text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (collection_id, document_id)
);

-- Whoever deletes, in whatever way: a hold is looked for in the transaction that deletes.
CREATE FUNCTION refuse_held_documents() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    SELECT gone.document_id, gone.collection_id INTO held FROM gone JOIN legal_holds h
        ON h.collection_id = gone.collection_id AND (h.document_id IS NULL OR h.document_id = gone.document_id)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the document % of the collection % is under a legal hold',
            held.document_id, held.collection_id USING HINT = 'LEGAL_HOLD';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER refuse_held_documents AFTER DELETE ON documents
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_held_documents();

CREATE FUNCTION refuse_held_collection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM legal_holds h WHERE h.collection_id = OLD.collection_id) THEN
        RAISE EXCEPTION 'the collection %, or a document of it, is under a legal hold', OLD.collection_id
            USING HINT = 'LEGAL_HOLD';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER refuse_held_collection BEFORE DELETE ON collections
    FOR EACH ROW EXECUTE FUNCTION refuse_held_collection();
