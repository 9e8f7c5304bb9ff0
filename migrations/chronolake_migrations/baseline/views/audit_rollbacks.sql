CREATE VIEW chronolake.audit_rollbacks AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    undone.table_id,
    undone.requested_time,
    chronolake.instant_time(undone.requested_time, c.tick_us) AS requested_digits,
    undone.action,
    undone.operation,
    undone.writer,
    undone.rolled_back_at,
    e.payload ->> 'by' AS rolled_back_by,
    e.actor AS rolled_back_by_actor,
    undone.rollback_reason AS reason,
    undone.rollback_cause AS cause,
    undo.action AS undone_by_action,
    undo.requested_time AS undone_by_requested_time,
    chronolake.instant_time(undo.requested_time, c.tick_us) AS undone_by_digits,
    undo.state AS undone_by_state,
    (
        SELECT jsonb_agg(n.name ORDER BY n.ordinal)
        FROM chronolake.event_entry n
        WHERE n.table_id = undo.table_id AND n.instant = undo.requested_time AND n.list = 'plan-files'
    ) AS files_to_delete,
    e.request_id
FROM chronolake.instant undone
JOIN chronolake.lake_table t ON t.table_id = undone.table_id
JOIN chronolake.clock c ON c.table_id = undone.table_id
LEFT JOIN chronolake.event e ON e.table_id = undone.table_id AND e.version = undone.version
LEFT JOIN chronolake.instant undo
    ON undo.table_id = undone.table_id AND undo.requested_time = undone.rolled_back_by
WHERE undone.state = 'rolled_back';

COMMENT ON VIEW chronolake.audit_rollbacks IS
    'Every instant that was rolled back, and every released savepoint: time, actor, reason, and the rollback or restore.';
