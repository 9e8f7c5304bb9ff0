-- A report is checked against all files that streams of the table have reported for pending instants
-- (docs/decisions/0058-streams.md). The buffers name the versions of these files only, in JSON.
CREATE TABLE chronolake.buffered_file (
    file_id        text COLLATE "C" NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    table_id       uuid             NOT NULL,
    version        bigint           NOT NULL,
    ordinal        int              NOT NULL,
    requested_time timestamptz      NOT NULL,
    file_name      text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    -- The file id is first. With the table first, as in the other index, the planner cannot tell the two indexes apart
    -- without statistics, and would read all files of the table for each file of a report.
    CONSTRAINT buffered_file_unique PRIMARY KEY (file_id, partition_path, table_id, version, ordinal)
);

CREATE INDEX buffered_file_instant ON chronolake.buffered_file (table_id, requested_time);

COMMENT ON TABLE chronolake.buffered_file IS
    'The files in the buffers of streams: reported for checkpoints whose instants are pending.';
COMMENT ON COLUMN chronolake.buffered_file.version IS
    'The event that staged the file. With the ordinal it is the key of the write stat.';
COMMENT ON COLUMN chronolake.buffered_file.requested_time IS 'The instant of the checkpoint.';
