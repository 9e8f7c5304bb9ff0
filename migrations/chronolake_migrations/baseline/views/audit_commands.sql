CREATE VIEW chronolake.audit_commands AS
SELECT
    o.recorded_at,
    coalesce(o.actor, e.actor) AS actor,
    o.address,
    o.command,
    coalesce(t.namespace || '.' || t.name, r.table_name) AS table_name,
    o.table_id,
    o.version,
    coalesce(e.instant, r.instant) AS requested_time,
    chronolake.instant_time(coalesce(e.instant, r.instant), coalesce(c.tick_us, 1000)) AS requested_digits,
    e.type AS event_type,
    o.code,
    o.request_id
FROM chronolake.outcome o
LEFT JOIN chronolake.event e
    ON e.table_id = o.table_id AND e.version = o.version AND e.request_id = o.request_id
LEFT JOIN chronolake.refusal r ON r.request_id = o.request_id
LEFT JOIN chronolake.lake_table t ON t.table_id = o.table_id
LEFT JOIN chronolake.clock c ON c.table_id = o.table_id;

COMMENT ON VIEW chronolake.audit_commands IS 'Every command that was decided: its actor, the address, and the code of a refusal.';
