-- The files of an instant, as its writer reported them. A digest in the payload of the event covers them. Staged write
-- stats have the version of the event that staged them; the event that completes the instant names these versions.
CREATE TABLE chronolake.write_stat (
    table_id       uuid             NOT NULL,
    version        bigint           NOT NULL,
    size_bytes     bigint           NOT NULL,
    records        bigint           NOT NULL,
    inserts        bigint           NOT NULL,
    updates        bigint           NOT NULL,
    deletes        bigint           NOT NULL,
    ordinal        int              NOT NULL,
    era            int              NOT NULL,
    has_field_ids  boolean,
    kind           text COLLATE "C" NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    file_id        text COLLATE "C" NOT NULL,
    file_name      text COLLATE "C" NOT NULL,
    -- json and not jsonb, because the digest in the event covers the numbers as they are written here.
    column_stats   json,
    CONSTRAINT write_stat_kind CHECK (kind IN ('base', 'log'))
) PARTITION BY LIST (era);

COMMENT ON TABLE chronolake.write_stat IS
    'The write stats of each instant: those of its completion, and those that were staged before. Append-only.';
COMMENT ON COLUMN chronolake.write_stat.column_stats IS
    'Of each column an array: field id, min, max and nulls, as the writer reported them. Null if it reported none.';
COMMENT ON COLUMN chronolake.write_stat.has_field_ids IS
    'Whether each column of the file has its field id, as the writer said; null when it did not say.';

CREATE TRIGGER write_stat_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.write_stat
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.write_stat ENABLE ALWAYS TRIGGER write_stat_append_only;
