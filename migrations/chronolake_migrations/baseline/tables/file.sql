-- Published data files. A row is one period in which the file is in the latest slice of its file group: a restore may
-- bring a file back (docs/decisions/0012-file-periods.md).
CREATE TABLE chronolake.file (
    table_id        uuid             NOT NULL,
    version         bigint           NOT NULL,
    requested_time  timestamptz      NOT NULL,
    completion_time timestamptz      NOT NULL,
    live_from       timestamptz      NOT NULL,
    superseded_at   timestamptz,
    withdrawn_at    timestamptz,
    cleaned_by      timestamptz,
    size_bytes      bigint           NOT NULL,
    records         bigint           NOT NULL,
    ordinal         int              NOT NULL,
    schema_version  int              NOT NULL,
    has_field_ids   boolean          NOT NULL DEFAULT false,
    kind            text COLLATE "C" NOT NULL,
    partition_path  text COLLATE "C" NOT NULL,
    file_id         text COLLATE "C" NOT NULL,
    file_name       text COLLATE "C" NOT NULL,
    column_stats    jsonb,
    -- The key does not begin with table_id, so that the planner uses the index of groups for queries that name a group.
    CONSTRAINT file_write_stat_unique PRIMARY KEY (version, table_id, ordinal, live_from),
    CONSTRAINT file_lives_forwards CHECK (live_from >= completion_time)
);

-- Two short indexes take less than one with both keys (273 against 397 bytes of a commit).
CREATE INDEX file_of_group ON chronolake.file (table_id, partition_path, file_id, requested_time);
CREATE INDEX file_superseded ON chronolake.file (table_id, superseded_at) WHERE superseded_at IS NOT NULL;
-- On a new table without statistics, PostgreSQL may take the index on live_from for a query that names a file group, and
-- then read all files of the table. Only a query that states the condition, which is always true, can take this one.
CREATE INDEX file_live_from ON chronolake.file (table_id, live_from) WHERE live_from >= completion_time;
-- The live files of a file group, oldest first. Queries ask for this order, so that the planner chooses this index even
-- without statistics. The index of all files of a group begins with the same columns and has the same estimated cost, but
-- contains all files that the group ever had.
CREATE INDEX file_live ON chronolake.file (table_id, partition_path, file_id, completion_time)
    WHERE superseded_at IS NULL;
-- For planning compactions: the live log files alone, so it is empty where everything is compacted.
CREATE INDEX file_live_log ON chronolake.file (table_id, partition_path, file_id)
    WHERE superseded_at IS NULL AND kind = 'log';
-- For planning a clean, oldest first. It does not contain cleaned files, so it stays small in a long history.
CREATE INDEX file_to_clean ON chronolake.file (table_id, superseded_at)
    WHERE superseded_at IS NOT NULL AND cleaned_by IS NULL;

COMMENT ON TABLE chronolake.file IS
    'The published data files of each table, and the periods in which they were in the latest slices.';
COMMENT ON COLUMN chronolake.file.version IS
    'The event that has the file. With the ordinal it is the key of the write stat.';
COMMENT ON COLUMN chronolake.file.live_from IS
    'The start of the period: the completion of the file''s instant, or that of a restore that brought the file back.';
COMMENT ON COLUMN chronolake.file.superseded_at IS 'The end of the period; null while the file is in the latest slice.';
COMMENT ON COLUMN chronolake.file.withdrawn_at IS 'The time at which a restore undid the instant that wrote the file.';
COMMENT ON COLUMN chronolake.file.column_stats IS
    'For each field id min, max and nulls, as far as they are known. Null after a clean has planned to delete the file.';
COMMENT ON COLUMN chronolake.file.schema_version IS 'The version of the table''s schema that the file was written with.';
COMMENT ON COLUMN chronolake.file.cleaned_by IS
    'The clean whose plan has the file, so it may be deleted from storage; null if no plan of the server has it.';
COMMENT ON COLUMN chronolake.file.has_field_ids IS
    'Whether each column of the file, nested fields included, has its field id.';
