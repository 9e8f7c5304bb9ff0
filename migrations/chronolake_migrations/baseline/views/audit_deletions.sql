CREATE VIEW chronolake.audit_deletions AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    d.table_id,
    d.requested_time,
    chronolake.instant_time(d.requested_time, c.tick_us) AS requested_digits,
    CASE WHEN e.instant <> d.requested_time THEN e.instant END AS rollback_requested_time,
    CASE WHEN e.instant <> d.requested_time THEN chronolake.instant_time(e.instant, c.tick_us) END AS rollback_digits,
    d.partition_path,
    d.file_name,
    e.time AS reported_at,
    e.actor,
    e.request_id,
    d.version
FROM chronolake.deleted_file d
JOIN chronolake.event e ON e.table_id = d.table_id AND e.version = d.version
JOIN chronolake.lake_table t ON t.table_id = d.table_id
JOIN chronolake.clock c ON c.table_id = d.table_id;

COMMENT ON VIEW chronolake.audit_deletions IS
    'Every file that was reported deleted from storage: its instant, the rollback if one deleted it, the time, the actor.';
