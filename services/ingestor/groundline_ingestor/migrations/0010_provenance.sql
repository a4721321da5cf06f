-- Who stored a revision, and what made it: Provenance in proto3 JSON; null where an earlier release, or an import, did.
ALTER TABLE documents ADD COLUMN provenance jsonb;
ALTER TABLE document_revisions ADD COLUMN provenance jsonb;

-- Documents of unfinished imports wait in tables that need the same columns.
DO $$
DECLARE
    waiting text;
BEGIN
    FOR waiting IN
        SELECT 'imported_p' || partition_id || '_documents' FROM imports
        WHERE to_regclass('imported_p' || partition_id || '_documents') IS NOT NULL
    LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN provenance jsonb', waiting);
    END LOOP;
END
$$;

-- Whoever makes another revision says how; an earlier release does not, and must not leave what was said of the last one.
CREATE OR REPLACE FUNCTION name_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := document_revision(NEW);
    IF TG_OP = 'UPDATE' AND NEW.revision IS DISTINCT FROM OLD.revision
        AND NEW.provenance IS NOT DISTINCT FROM OLD.provenance
    THEN
        NEW.provenance := NULL;
    END IF;
    RETURN NEW;
END
$$;
