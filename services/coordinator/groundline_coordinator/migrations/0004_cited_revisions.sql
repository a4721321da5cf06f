-- Answers keep the revisions of documents that they cite. Older versions write none.
ALTER TABLE cited_revisions ADD FOREIGN KEY (thread_id, message_index) REFERENCES messages ON DELETE CASCADE;
