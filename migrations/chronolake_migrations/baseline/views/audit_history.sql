CREATE VIEW chronolake.audit_history AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    e.table_id,
    e.version,
    e.type,
    e.time,
    chronolake.instant_time(e.time, c.tick_us) AS time_digits,
    e.instant AS requested_time,
    chronolake.instant_time(e.instant, c.tick_us) AS requested_digits,
    i.writer,
    e.actor,
    o.address,
    e.request_id,
    e.payload::jsonb AS payload,
    e.transaction_id,
    e.position
FROM chronolake.event e
JOIN chronolake.clock c ON c.table_id = e.table_id
LEFT JOIN chronolake.lake_table t ON t.table_id = e.table_id
LEFT JOIN chronolake.instant i ON i.table_id = e.table_id AND i.requested_time = e.instant
LEFT JOIN chronolake.outcome o ON o.request_id = e.request_id;

COMMENT ON VIEW chronolake.audit_history IS 'Every event of every table, with names and readable times.';
