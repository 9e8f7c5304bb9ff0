CREATE VIEW chronolake.audit_streams AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    s.table_id,
    s.name AS stream,
    s.epoch,
    s.writer,
    s.opened_at,
    s.is_open,
    chronolake.wall_time(s.lease_expires_at) AS lease_expires_at,
    s.lease_expires_at <= chronolake.moment(chronolake.steady_us()) AS is_expired,
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
        coalesce(sum((report.value ->> 'size_bytes')::numeric), 0) AS bytes,
        bool_and((report.value ->> 'last_batch')::boolean) AS is_reported
    FROM chronolake.stream_checkpoint c
    LEFT JOIN LATERAL jsonb_each(c.tasks) AS report ON true
    WHERE c.table_id = s.table_id AND c.stream = s.name
) AS buffered;

COMMENT ON VIEW chronolake.audit_streams IS
    'The streams of tables that are not dropped: who has them open, and what waits for an acknowledgement.';
