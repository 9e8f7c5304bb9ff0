-- Long lists of events (docs/decisions/0015-long-lists.md).
CREATE TABLE chronolake.event_entry (
    table_id       uuid             NOT NULL,
    instant        timestamptz      NOT NULL,
    list           text COLLATE "C" NOT NULL,
    ordinal        int              NOT NULL,
    era            int              NOT NULL,
    version        bigint           NOT NULL,
    partition_path text COLLATE "C",
    name           text COLLATE "C" NOT NULL
) PARTITION BY LIST (era);

COMMENT ON TABLE chronolake.event_entry IS
    'The entries of the lists of events: one row per entry; a digest in the payload of the event covers them. Append-only.';
COMMENT ON COLUMN chronolake.event_entry.instant IS 'The requested time of the instant of the event.';
COMMENT ON COLUMN chronolake.event_entry.list IS
    'plan-file-groups, plan-files, plan-instants (of InstantRequested) or replaced-file-groups (of InstantCompleted).';
COMMENT ON COLUMN chronolake.event_entry.version IS 'The version of the event.';
COMMENT ON COLUMN chronolake.event_entry.partition_path IS 'The partition of a file group; null for files and instants.';
COMMENT ON COLUMN chronolake.event_entry.name IS
    'The file id, the path of the file relative to the base path, or the requested time in microseconds since 1970.';

CREATE TRIGGER event_entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.event_entry
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.event_entry ENABLE ALWAYS TRIGGER event_entry_append_only;
