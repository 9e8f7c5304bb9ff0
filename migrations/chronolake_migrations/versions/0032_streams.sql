-- The streams of tables and their buffers (docs/decisions/0058-streams.md): projections of the log.
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
    CONSTRAINT stream_name_unique PRIMARY KEY (table_id, name),
    CONSTRAINT stream_epoch_positive CHECK (epoch > 0)
);

CREATE TABLE chronolake.stream_checkpoint (
    table_id       uuid             NOT NULL,
    stream         text COLLATE "C" NOT NULL,
    checkpoint     bigint           NOT NULL,
    requested_time timestamptz      NOT NULL,
    epoch          bigint           NOT NULL,
    is_blocking    boolean          NOT NULL,
    tasks          jsonb            NOT NULL,
    CONSTRAINT stream_checkpoint_unique PRIMARY KEY (table_id, stream, checkpoint),
    -- One instant has the files of one checkpoint.
    CONSTRAINT stream_checkpoint_instant_unique UNIQUE (table_id, requested_time)
) WITH (fillfactor = 50); -- updated by every report of a task

COMMENT ON TABLE chronolake.stream IS 'The streams of each table: streaming writers, in their present state.';
COMMENT ON COLUMN chronolake.stream.epoch IS 'Counts the openings. A request with an earlier epoch is refused.';
COMMENT ON COLUMN chronolake.stream.acknowledged IS 'The last checkpoint that is known to be complete.';
COMMENT ON COLUMN chronolake.stream.attempts IS 'By task, how often it was restarted alone.';
COMMENT ON COLUMN chronolake.stream.ended IS 'The tasks that have reported the end of their input.';
COMMENT ON TABLE chronolake.stream_checkpoint IS
    'The buffers of streams: checkpoints with a pending instant, and what their tasks have reported.';
COMMENT ON COLUMN chronolake.stream_checkpoint.tasks IS
    'By task: the versions that staged its files, their totals, and whether it has reported its last batch.';

ALTER TABLE chronolake.instant ADD stream jsonb;
COMMENT ON COLUMN chronolake.instant.stream IS
    'The stream and the checkpoint whose files the instant has. Its lease never ends: the stream has the lease.';

CREATE VIEW chronolake.audit_streams AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    s.table_id,
    s.name AS stream,
    s.epoch,
    s.writer,
    s.opened_at,
    s.is_open,
    s.lease_expires_at,
    s.lease_expires_at <= chronolake.moment(chronolake.now_us()) AS is_expired,
    s.acknowledged AS acknowledged_checkpoint,
    buffered.instants AS pending_instants,
    buffered.oldest_checkpoint,
    buffered.oldest_instant,
    buffered.files AS buffered_files,
    buffered.bytes AS buffered_bytes,
    buffered.is_reported
FROM chronolake.stream s
JOIN chronolake.lake_table t ON t.table_id = s.table_id AND t.dropped_at IS NULL
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT c.checkpoint) AS instants,
        min(c.checkpoint) AS oldest_checkpoint,
        min(c.requested_time) AS oldest_instant,
        coalesce(sum((report.value ->> 'files')::bigint), 0) AS files,
        coalesce(sum((report.value ->> 'size_bytes')::bigint), 0) AS bytes,
        bool_and((report.value ->> 'last_batch')::boolean) AS is_reported
    FROM chronolake.stream_checkpoint c
    LEFT JOIN LATERAL jsonb_each(c.tasks) AS report ON true
    WHERE c.table_id = s.table_id AND c.stream = s.name
) AS buffered;

COMMENT ON VIEW chronolake.audit_streams IS
    'The streams of tables that are not dropped: who has them open, and what waits for an acknowledgement.';
