CREATE TABLE chronolake.replaced_group (
    table_id       uuid             NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    file_id        text COLLATE "C" NOT NULL,
    requested_time timestamptz      NOT NULL,
    replaced_at    timestamptz      NOT NULL,
    withdrawn_at   timestamptz,
    CONSTRAINT replaced_group_unique PRIMARY KEY (table_id, partition_path, file_id, requested_time)
);

CREATE INDEX replaced_group_at ON chronolake.replaced_group (table_id, replaced_at);

COMMENT ON TABLE chronolake.replaced_group IS
    'The file groups that were replaced. The instant of requested_time replaced them when it completed, at replaced_at.';
COMMENT ON COLUMN chronolake.replaced_group.withdrawn_at IS
    'The time at which a restore undid the instant that replaced the group.';
