CREATE TABLE chronolake.planned_group (
    table_id       uuid             NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    file_id        text COLLATE "C" NOT NULL,
    requested_time timestamptz      NOT NULL,
    is_service     boolean          NOT NULL,
    CONSTRAINT planned_group_unique PRIMARY KEY (table_id, partition_path, file_id, requested_time)
);

CREATE INDEX planned_group_instant ON chronolake.planned_group (table_id, requested_time);

-- Any number of writes may plan for a file group, but only one table service. The lock of the table only makes a second one
-- rare.
CREATE UNIQUE INDEX planned_group_of_service ON chronolake.planned_group (table_id, partition_path, file_id)
    WHERE is_service;

COMMENT ON TABLE chronolake.planned_group IS 'The file groups in the plans of pending instants.';
COMMENT ON COLUMN chronolake.planned_group.is_service IS
    'Whether the instant is a compaction, a log compaction or a clustering.';
