-- The lease of a stream holds its instants, whose own leases end in the year 9999. The steady clock decides whether a lease
-- has expired. Times are shown by the wall clock.
CREATE VIEW chronolake.audit_pending AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    i.table_id,
    i.requested_time,
    chronolake.instant_time(i.requested_time, c.tick_us) AS requested_digits,
    i.state,
    i.action,
    i.operation,
    i.writer,
    e.actor AS last_actor,
    e.time AS last_heard_at,
    lease.seconds AS lease_seconds,
    chronolake.wall_time(lease.expires_at) AS lease_expires_at,
    CASE
        WHEN lease.expires_at IS NULL THEN 'none'
        WHEN lease.expires_at > steady.time THEN 'live'
        ELSE 'expired'
    END AS lease_state,
    steady.time - lease.expires_at AS expired_for,
    wall.time - i.requested_time AS running_for,
    i.stream ->> 'name' AS stream,
    (i.stream ->> 'checkpoint')::bigint AS checkpoint,
    b.is_reported
FROM chronolake.instant i
JOIN chronolake.lake_table t ON t.table_id = i.table_id AND t.dropped_at IS NULL
JOIN chronolake.clock c ON c.table_id = i.table_id
JOIN chronolake.event e ON e.table_id = i.table_id AND e.version = i.version
LEFT JOIN chronolake.stream s ON s.table_id = i.table_id AND s.name = i.stream ->> 'name'
LEFT JOIN chronolake.stream_checkpoint b ON b.table_id = i.table_id AND b.requested_time = i.requested_time
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN i.stream IS NULL THEN i.lease_seconds ELSE s.lease_seconds END AS seconds,
        CASE WHEN i.stream IS NULL THEN i.lease_expires_at ELSE s.lease_expires_at END AS expires_at
) AS lease
CROSS JOIN (SELECT greatest(chronolake.moment(chronolake.now_us()), last_time) AS time FROM chronolake.wall_clock) AS wall
CROSS JOIN (SELECT chronolake.moment(chronolake.steady_us()) AS time) AS steady
WHERE i.state IN ('requested', 'inflight');

COMMENT ON VIEW chronolake.audit_pending IS
    'The instants that are requested or inflight now, in tables that are not dropped, and their leases.';
