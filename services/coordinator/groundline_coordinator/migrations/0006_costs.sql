-- Price of a caller's answers and checked texts by day (UTC), where it is known; for budgets of a day and of a month.
CREATE TABLE costs (
    owner text NOT NULL,
    day date NOT NULL,
    usd double precision NOT NULL CHECK (usd >= 0),
    PRIMARY KEY (owner, day)
);
