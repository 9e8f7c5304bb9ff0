CREATE SEQUENCE chronolake.refusal_position;

CREATE TABLE chronolake.refusal (
    position       bigint           NOT NULL DEFAULT nextval('chronolake.refusal_position'),
    transaction_id xid8             NOT NULL DEFAULT pg_current_xact_id(),
    request_id     text COLLATE "C" NOT NULL,
    refused_at     timestamptz      NOT NULL,
    actor          text COLLATE "C" NOT NULL,
    address        text COLLATE "C",
    command        text COLLATE "C" NOT NULL,
    table_name     text COLLATE "C",
    table_id       uuid,
    version        bigint,
    instant        timestamptz,
    era            int              NOT NULL,
    code           text COLLATE "C" NOT NULL,
    detail         text COLLATE "C" NOT NULL,
    context        jsonb            NOT NULL,
    CONSTRAINT refusal_version_of_table CHECK ((table_id IS NULL) = (version IS NULL)),
    CONSTRAINT refusal_detail_bounded CHECK (length(detail) <= 1000),
    CONSTRAINT refusal_context_bounded CHECK (octet_length(context::text) <= 16384)
) PARTITION BY LIST (era);

CREATE INDEX refusal_table ON chronolake.refusal (table_id, refused_at);
CREATE INDEX refusal_time ON chronolake.refusal USING brin (refused_at);

COMMENT ON TABLE chronolake.refusal IS
    'Every command that was refused. Refusals are not events of the tables. Append-only.';
COMMENT ON COLUMN chronolake.refusal.refused_at IS 'By the wall clock of the database.';
COMMENT ON COLUMN chronolake.refusal.table_name IS 'The name of the table in the command; null for a namespace.';
COMMENT ON COLUMN chronolake.refusal.table_id IS
    'The table that had this name, if there was one; all zeros for the catalog (namespaces).';
COMMENT ON COLUMN chronolake.refusal.version IS 'The version of the table''s log when the command was decided.';
COMMENT ON COLUMN chronolake.refusal.context IS
    'The context of the error. Long texts and lists are cut; outcome.result has all of it.';

CREATE TRIGGER refusal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.refusal
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.refusal ENABLE ALWAYS TRIGGER refusal_append_only;
