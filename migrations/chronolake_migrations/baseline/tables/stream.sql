-- The streams of tables (docs/decisions/0058-streams.md).
CREATE TABLE chronolake.stream (
    table_id         uuid             NOT NULL,
    name             text COLLATE "C" NOT NULL,
    epoch            bigint           NOT NULL,
    writer           text COLLATE "C" NOT NULL,
    opened_at        timestamptz      NOT NULL,
    is_open          boolean          NOT NULL,
    tasks            int,
    lease_seconds    int              NOT NULL,
    lease_expires_at timestamptz      NOT NULL,
    acknowledged     bigint,
    attempts         jsonb            NOT NULL,
    ended            jsonb            NOT NULL,
    version          bigint           NOT NULL,
    lost             bigint,
    CONSTRAINT stream_name_unique PRIMARY KEY (table_id, name),
    CONSTRAINT stream_epoch_positive CHECK (epoch > 0)
);

CREATE INDEX stream_lease ON chronolake.stream (lease_expires_at);

COMMENT ON TABLE chronolake.stream IS 'The streams of each table: streaming writers, in their present state.';
COMMENT ON COLUMN chronolake.stream.epoch IS 'Counts the openings. A request with an earlier epoch is refused.';
COMMENT ON COLUMN chronolake.stream.acknowledged IS 'The last checkpoint that is known to be complete.';
COMMENT ON COLUMN chronolake.stream.attempts IS 'By task, how often it was restarted alone.';
COMMENT ON COLUMN chronolake.stream.ended IS 'The tasks that have reported the end of their input.';
COMMENT ON COLUMN chronolake.stream.lost IS
    'The first checkpoint that was rolled back since the stream was opened, because its writer was silent too long.';
