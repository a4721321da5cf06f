-- Threads under a legal hold stay, with their answers as they are. So do the documents that these rest on: to delete one would
-- blank them. Older versions do not know of holds, but cannot delete what is held.

CREATE FUNCTION refuse_held_thread() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM thread_holds h WHERE h.thread_id = OLD.thread_id) THEN
        RAISE EXCEPTION 'the thread % is under a legal hold, with the documents that it cites', OLD.thread_id
            USING HINT = 'LEGAL_HOLD';
    END IF;
    RETURN coalesce(NEW, OLD);
END
$$;
CREATE TRIGGER refuse_held_thread BEFORE DELETE ON threads FOR EACH ROW EXECUTE FUNCTION refuse_held_thread();
CREATE TRIGGER refuse_held_thread BEFORE UPDATE OF content ON messages FOR EACH ROW
    WHEN (OLD.content <> '' AND NEW.content <> OLD.content) EXECUTE FUNCTION refuse_held_thread();
