-- Markers (docs/decisions/0016-markers.md).
CREATE TABLE chronolake.marker (
    table_id       uuid             NOT NULL,
    requested_time timestamptz      NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    file_name      text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    file_id        text COLLATE "C",
    created_at     timestamptz      NOT NULL,
    CONSTRAINT marker_name_unique PRIMARY KEY (table_id, requested_time, partition_path, file_name, kind),
    CONSTRAINT marker_kind CHECK (kind IN ('CREATE', 'MERGE', 'APPEND'))
);

-- For early conflict detection: the instants with markers in a file group. Rows of tables without it have no file_id.
CREATE INDEX marker_group ON chronolake.marker (table_id, partition_path, file_id, requested_time)
    WHERE file_id IS NOT NULL;

COMMENT ON TABLE chronolake.marker IS
    'The data files that each instant may have written. Neither log nor projection: markers of ended instants are deleted.';
COMMENT ON COLUMN chronolake.marker.file_id IS
    'The file group, in tables with early conflict detection; null in other tables.';
COMMENT ON COLUMN chronolake.marker.created_at IS 'By the wall clock of the database.';
