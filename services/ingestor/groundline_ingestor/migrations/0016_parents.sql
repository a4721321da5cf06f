-- Chunks of one parent are searched one by one and read together: so many come before and after each in its document.
ALTER TABLE chunks
    ADD COLUMN siblings_before integer NOT NULL DEFAULT 0,
    ADD COLUMN siblings_after integer NOT NULL DEFAULT 0;
