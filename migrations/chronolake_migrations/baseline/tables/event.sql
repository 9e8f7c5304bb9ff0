-- Columns of a fixed length are first, so that none needs padding.
CREATE SEQUENCE chronolake.event_position;

CREATE TABLE chronolake.event (
    position       bigint           NOT NULL DEFAULT nextval('chronolake.event_position'),
    transaction_id xid8             NOT NULL DEFAULT pg_current_xact_id(),
    table_id       uuid             NOT NULL,
    version        bigint           NOT NULL,
    time           timestamptz      NOT NULL,
    instant        timestamptz,
    answers        bigint,
    -- A page of the log is bounded in bytes. This column gives the size without reading the payload. It is not
    -- generated: that would take a tenth of the time of an append.
    payload_bytes  int              NOT NULL,
    era            int              NOT NULL,
    type           text COLLATE "C" NOT NULL,
    actor          text COLLATE "C" NOT NULL,
    request_id     text COLLATE "C" NOT NULL,
    previous_hash  bytea            NOT NULL,
    hash           bytea            NOT NULL,
    answers_hash   bytea,
    -- As json it has two thirds of the bytes of jsonb.
    payload        json             NOT NULL,
    CONSTRAINT event_version_positive CHECK (version >= 1),
    CONSTRAINT event_hash_length CHECK (length(hash) = 32)
) PARTITION BY LIST (era);

-- For the events that change tables: by table for audits, and by the former name of a renamed table.
CREATE INDEX event_table_changed ON chronolake.event (table_id, version)
    WHERE type IN ('TableCreated', 'TableAltered', 'TableDropped');
CREATE INDEX event_table_renamed ON chronolake.event ((payload ->> 'name') COLLATE "C")
    WHERE type = 'TableAltered' AND payload ->> 'new_name' IS NOT NULL;
-- The last of them of a table says whether a check has found anything new.
CREATE INDEX event_hudi_files_found ON chronolake.event (table_id, version) WHERE type = 'HudiFilesFound';

COMMENT ON TABLE chronolake.event IS
    'Every change of every table, in order: per table by version, across tables by (transaction_id, position). Append-only.';
COMMENT ON COLUMN chronolake.event.table_id IS 'The table; all zeros for the catalog (namespaces).';
COMMENT ON COLUMN chronolake.event.version IS 'Dense per table, from 1.';
COMMENT ON COLUMN chronolake.event.instant IS 'The requested time of the instant that changed, if one did.';
COMMENT ON COLUMN chronolake.event.time IS
    'Issued by the table''s clock in the transaction that inserted this row; increases with version.';
COMMENT ON COLUMN chronolake.event.hash IS 'SHA-256 over the event and previous_hash: the chain of the table.';
COMMENT ON COLUMN chronolake.event.answers IS
    'The number of outcomes that the table''s chain of answers had before.';
COMMENT ON COLUMN chronolake.event.answers_hash IS 'The hash of the last of them; the hash of the event covers it.';
COMMENT ON COLUMN chronolake.event.payload_bytes IS 'The length of the payload as JSON. It bounds pages of the log.';

CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.event
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.event ENABLE ALWAYS TRIGGER event_append_only;

-- A server that could record the first of these events would let the owner drop what no archive has. By the others it
-- could make tokens for itself, or use its credentials wherever a client says. Other events cost one comparison.
CREATE TRIGGER event_of_owner BEFORE INSERT ON chronolake.event
    FOR EACH ROW
    WHEN (NEW.type IN ('EraArchived', 'TokenCreated', 'TokenRotated', 'TokenRevoked', 'LocationAllowed', 'LocationRevoked'))
    EXECUTE FUNCTION chronolake.refuse_unless_owner();
ALTER TABLE chronolake.event ENABLE ALWAYS TRIGGER event_of_owner;
