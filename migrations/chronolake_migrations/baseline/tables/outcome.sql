-- The result of each command, by its idempotency key. Outcomes are kept as long as the log.
CREATE TABLE chronolake.outcome (
    chain_id      uuid             NOT NULL,
    number        bigint           NOT NULL,
    table_id      uuid,
    version       bigint,
    recorded_at   timestamptz,
    era           int              NOT NULL,
    request_id    text COLLATE "C" NOT NULL,
    command       text COLLATE "C",
    actor         text COLLATE "C",
    address       text COLLATE "C",
    dialect       text COLLATE "C",
    code          text COLLATE "C",
    hash          bytea            NOT NULL,
    fingerprint   bytea            NOT NULL,
    answer_digest bytea,
    result        bytea            NOT NULL,
    -- A refusal may concern no table.
    CONSTRAINT outcome_version_of_table CHECK ((table_id IS NULL) = (version IS NULL)),
    CONSTRAINT outcome_success_has_table CHECK (code IS NOT NULL OR table_id IS NOT NULL),
    CONSTRAINT outcome_digest_of_dialect CHECK ((dialect IS NULL) = (answer_digest IS NULL)),
    CONSTRAINT outcome_number_positive CHECK (number >= 1)
) PARTITION BY LIST (era);

-- Rows are stored in the order of their times, so a BRIN index suffices and costs almost nothing.
CREATE INDEX outcome_recorded ON chronolake.outcome USING brin (recorded_at);

COMMENT ON TABLE chronolake.outcome IS
    'The result of every command that was decided, including refusals, by request id. Append-only.';
COMMENT ON COLUMN chronolake.outcome.fingerprint IS
    'The fingerprint of the request: another request under the same key is refused.';
COMMENT ON COLUMN chronolake.outcome.version IS 'The version of the table''s log right after the command.';
COMMENT ON COLUMN chronolake.outcome.code IS 'The code of a refusal; null for a success.';
COMMENT ON COLUMN chronolake.outcome.result IS
    'A refusal as JSON, or the result of a success: JSON too, packed where it is short. It has its kind and revision in "type". The events say what a success changed.';
COMMENT ON COLUMN chronolake.outcome.dialect IS 'The form of the first answer; null for a command of a worker.';
COMMENT ON COLUMN chronolake.outcome.answer_digest IS 'The first 16 bytes of SHA-256 of the bytes of the first answer.';
COMMENT ON COLUMN chronolake.outcome.address IS
    'The address that the connection came from; that of the proxy, if there is one.';
COMMENT ON COLUMN chronolake.outcome.chain_id IS
    'The chain of answers of the table, of the catalog (all zeros), or of outcomes that concern no table.';
COMMENT ON COLUMN chronolake.outcome.number IS 'Dense per chain, from 1.';
COMMENT ON COLUMN chronolake.outcome.hash IS
    'SHA-256 over the outcome, its refusal, and the hash of the previous outcome in the chain.';

CREATE TRIGGER outcome_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.outcome
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.outcome ENABLE ALWAYS TRIGGER outcome_append_only;
