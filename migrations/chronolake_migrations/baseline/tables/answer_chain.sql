-- The head of each chain of answers, a projection of the outcomes. A chain is that of a table (its id), of the catalog
-- (all zeros), or, for outcomes that concern no table, of a key of the lock on table names (the key plus one).
CREATE TABLE chronolake.answer_chain (
    chain_id uuid   NOT NULL,
    number   bigint NOT NULL,
    hash     bytea  NOT NULL,
    CONSTRAINT answer_chain_unique PRIMARY KEY (chain_id)
) WITH (fillfactor = 50); -- updated by every group of commands, as clock is

COMMENT ON TABLE chronolake.answer_chain IS 'The last outcome of each chain of answers.';
