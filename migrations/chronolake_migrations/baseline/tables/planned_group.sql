CREATE TABLE chronolake.planned_group (
    table_id       uuid             NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    file_id        text COLLATE "C" NOT NULL,
    requested_time timestamptz      NOT NULL,
    CONSTRAINT planned_group_unique PRIMARY KEY (table_id, partition_path, file_id, requested_time)
);

CREATE INDEX planned_group_instant ON chronolake.planned_group (table_id, requested_time);

COMMENT ON TABLE chronolake.planned_group IS 'The file groups in the plans of pending instants.';
