-- A clean without a plan is one that its writer ran by hand. No plan of a dropped table is executed any more.
CREATE VIEW chronolake.audit_services AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    i.table_id,
    i.requested_time,
    chronolake.instant_time(i.requested_time, c.tick_us) AS requested_digits,
    CASE i.operation
        WHEN 'compact' THEN 'compaction'
        WHEN 'log_compact' THEN 'log-compaction'
        WHEN 'cluster' THEN 'clustering'
        ELSE 'clean'
    END AS service,
    i.state,
    i.writer,
    (i.plan -> 'file_groups' ->> 'count')::bigint AS file_groups,
    i.plan -> 'details' AS details,
    i.completion_time,
    chronolake.instant_time(i.completion_time, c.tick_us) AS completion_digits,
    (i.summary ->> 'files')::bigint AS files,
    (i.summary ->> 'size_bytes')::bigint AS size_bytes,
    (i.plan -> 'files_to_delete' ->> 'count')::bigint AS files_to_delete,
    CASE WHEN i.state = 'requested' THEN wall.time - i.requested_time END AS waiting_for,
    (i.executions ->> 'taken')::int AS executions,
    i.executions ->> 'executor' AS last_executor,
    chronolake.moment((i.executions ->> 'ended_at')::bigint) AS last_failed_at,
    i.executions ->> 'reason' AS last_failure,
    i.rollback_reason AS cancelled_because
FROM chronolake.instant i
JOIN chronolake.lake_table t ON t.table_id = i.table_id
JOIN chronolake.clock c ON c.table_id = i.table_id
CROSS JOIN (SELECT greatest(chronolake.moment(chronolake.now_us()), last_time) AS time FROM chronolake.wall_clock) AS wall
WHERE (i.operation IN ('compact', 'log_compact', 'cluster') OR (i.action = 'clean' AND i.plan IS NOT NULL))
    AND (t.dropped_at IS NULL OR i.state NOT IN ('requested', 'inflight'));

COMMENT ON VIEW chronolake.audit_services IS
    'Every compaction, log compaction, clustering and planned clean: plan, executor, result, and why it was cancelled. Plans '
    'that were pending when their table was dropped are left out.';
