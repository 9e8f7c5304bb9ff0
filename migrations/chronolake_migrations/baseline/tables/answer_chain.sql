-- The head of each chain of answers, a projection of the outcomes. The id of a chain is that of its table, or all zeros
-- for the catalog. Outcomes that concern no table are in chains whose id is a key of the lock on table names plus one.
CREATE TABLE chronolake.answer_chain (
    chain_id uuid   NOT NULL,
    number   bigint NOT NULL,
    hash     bytea  NOT NULL,
    CONSTRAINT answer_chain_unique PRIMARY KEY (chain_id)
) WITH (fillfactor = 50); -- updated by every group of commands, as clock is

COMMENT ON TABLE chronolake.answer_chain IS 'The last outcome of each chain of answers.';
