-- Chains of answers: outcomes, and the refusals beside them, are sealed as events are.
-- Servers of the release before append nothing from now on (0017), so no outcome is outside of the chains.

-- The head of each chain, a projection of the outcomes. A chain is that of a table (its id), of the catalog (all
-- zeros), or of one of the locks that the names of tables are spread over (its number, plus one), for outcomes that
-- concern no table.
CREATE TABLE chronolake.answer_chain (
    chain_id uuid   NOT NULL,
    number   bigint NOT NULL,
    hash     bytea  NOT NULL,
    CONSTRAINT answer_chain_unique PRIMARY KEY (chain_id)
) WITH (fillfactor = 50); -- updated by every group of commands, as the clocks are

COMMENT ON TABLE chronolake.answer_chain IS 'The last outcome of each chain of answers.';

GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.answer_chain TO chronolake_server;

ALTER TABLE chronolake.outcome
    ADD COLUMN chain_id uuid,
    ADD COLUMN number bigint,
    ADD COLUMN hash bytea;

COMMENT ON COLUMN chronolake.outcome.chain_id IS
    'The chain: of the table, of the catalog (all zeros), or of outcomes that concern no table.';
COMMENT ON COLUMN chronolake.outcome.number IS 'Dense per chain, from 1.';
COMMENT ON COLUMN chronolake.outcome.hash IS
    'SHA-256 over the outcome, its refusal, and the hash of the outcome before it in the chain.';
COMMENT ON COLUMN chronolake.outcome.address IS 'Where the connection came from; a proxy''s, behind a proxy.';

ALTER TABLE chronolake.event
    ADD COLUMN answers bigint,
    ADD COLUMN answers_hash bytea;

COMMENT ON COLUMN chronolake.event.answers IS
    'How many outcomes the table''s chain of answers had before; null for events that are older than those chains.';
COMMENT ON COLUMN chronolake.event.answers_hash IS 'The hash of the last of them, which the hash of the event covers.';
