-- US dollars that models cost a caller's documents and answers by day (UTC), where the price is known; for budgets of a day
-- and of a month.
CREATE TABLE spending (
    owner text NOT NULL,
    day date NOT NULL,
    usd double precision NOT NULL CHECK (usd >= 0),
    PRIMARY KEY (owner, day)
);
CREATE INDEX spending_by_day ON spending (day);
