-- The long lists of events are rows beside the event (docs/decisions/0027).

-- A plan's lists used to be in the payload. Those events are sealed by the hash chain, so they cannot be moved.
DO $$
BEGIN
    IF EXISTS (
        SELECT
        FROM chronolake.event e
        WHERE (e.type = 'InstantRequested'
            AND 'array' IN (
                jsonb_typeof(e.payload #> '{plan,file_groups}'),
                jsonb_typeof(e.payload #> '{plan,files_to_delete}'),
                jsonb_typeof(e.payload #> '{plan,instants}')
            ))
            OR (e.type = 'InstantCompleted'
                AND jsonb_typeof(e.payload -> 'replaced_file_groups') = 'array'
                AND e.payload -> 'replaced_file_groups' <> '[]')
    ) THEN
        RAISE EXCEPTION 'this database was written by a development version that kept lists in the payloads of events'
            USING HINT = 'Lists are rows beside the event now, and events cannot be changed: begin with a new database.';
    END IF;
END
$$;

CREATE TABLE chronolake.event_entry (
    table_id       uuid        NOT NULL,
    instant        timestamptz NOT NULL,
    list           text        NOT NULL,
    ordinal        int         NOT NULL,
    version        bigint      NOT NULL,
    partition_path text,
    name           text        NOT NULL,
    CONSTRAINT event_entry_order PRIMARY KEY (table_id, instant, list, ordinal)
);

COMMENT ON TABLE chronolake.event_entry IS
    'The entries of the lists that events name: one row per entry, bound to the event by a digest in its payload. Append-only.';
COMMENT ON COLUMN chronolake.event_entry.instant IS 'The requested time of the instant that the event is about.';
COMMENT ON COLUMN chronolake.event_entry.list IS
    'plan-file-groups, plan-files, plan-instants (of InstantRequested) or replaced-file-groups (of InstantCompleted).';
COMMENT ON COLUMN chronolake.event_entry.version IS 'The version of the event.';
COMMENT ON COLUMN chronolake.event_entry.partition_path IS 'Of a file group; null for files and instants.';
COMMENT ON COLUMN chronolake.event_entry.name IS
    'The file id, the path of the file relative to the base path, or the requested time in microseconds since 1970.';

CREATE TRIGGER event_entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.event_entry
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
ALTER TABLE chronolake.event_entry ENABLE ALWAYS TRIGGER event_entry_append_only;

GRANT SELECT, INSERT ON chronolake.event_entry TO chronolake_server;
GRANT SELECT ON chronolake.event_entry TO chronolake_auditor;

-- How large an event is, so that a page of the log ends at a number of bytes without reading payloads that it leaves out.
ALTER TABLE chronolake.event
    ADD COLUMN payload_bytes int NOT NULL GENERATED ALWAYS AS (octet_length(payload::text)) STORED;

COMMENT ON COLUMN chronolake.event.payload_bytes IS 'The length of the payload as text.';

CREATE OR REPLACE VIEW chronolake.audit_rollbacks AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    undone.table_id,
    undone.requested_time,
    chronolake.instant_time(undone.requested_time, c.tick_us) AS requested_digits,
    undone.action,
    undone.operation,
    undone.writer,
    e.time AS rolled_back_at,
    e.payload ->> 'by' AS rolled_back_by,
    e.actor AS rolled_back_by_actor,
    undone.rollback_reason AS reason,
    undo.action AS undone_by_action,
    undo.requested_time AS undone_by_requested_time,
    chronolake.instant_time(undo.requested_time, c.tick_us) AS undone_by_digits,
    undo.state AS undone_by_state,
    (
        SELECT jsonb_agg(n.name ORDER BY n.ordinal)
        FROM chronolake.event_entry n
        WHERE n.table_id = undo.table_id AND n.instant = undo.requested_time AND n.list = 'plan-files'
    ) AS files_to_delete,
    e.request_id
FROM chronolake.instant undone
JOIN chronolake.lake_table t ON t.table_id = undone.table_id
JOIN chronolake.clock c ON c.table_id = undone.table_id
JOIN chronolake.event e ON e.table_id = undone.table_id AND e.version = undone.version
LEFT JOIN chronolake.instant undo
    ON undo.table_id = undone.table_id AND undo.requested_time = undone.rolled_back_by
WHERE undone.state = 'rolled_back';

GRANT SELECT ON chronolake.audit_rollbacks TO chronolake_auditor;
