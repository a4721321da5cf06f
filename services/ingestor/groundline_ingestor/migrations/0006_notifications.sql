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
