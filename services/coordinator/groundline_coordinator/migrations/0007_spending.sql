-- One ledger for answers and documents: the ingestor's. Coordinators of the release before write through the view, which
-- the release after this one may drop.
INSERT INTO spending SELECT owner, day, usd FROM costs;
DROP TABLE costs;
CREATE VIEW costs AS SELECT owner, day, usd FROM spending;
