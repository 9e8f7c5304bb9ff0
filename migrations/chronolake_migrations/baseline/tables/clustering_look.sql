-- How far clustering has looked at each table, so that planning costs what has changed since. It is only a hint: without the
-- row, or by another policy, the whole table is looked at.
CREATE TABLE chronolake.clustering_look (
    table_id   uuid                   NOT NULL,
    policy     bytea                  NOT NULL,
    seen_until timestamptz            NOT NULL,
    left_out   text[] COLLATE "C"     NOT NULL,
    CONSTRAINT clustering_look_of_table PRIMARY KEY (table_id)
);

COMMENT ON TABLE chronolake.clustering_look IS
    'How far clustering has looked at the partitions of a table. Neither log nor projection.';
COMMENT ON COLUMN chronolake.clustering_look.policy IS 'The digest of the policy of that look.';
COMMENT ON COLUMN chronolake.clustering_look.seen_until IS 'The time of the log at that look.';
COMMENT ON COLUMN chronolake.clustering_look.left_out IS 'The partitions that it did not finish.';
