CREATE VIEW chronolake.audit_schemas AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    s.table_id,
    s.schema_version,
    s.created_at,
    chronolake.instant_time(s.created_at, c.tick_us) AS created_digits,
    e.actor,
    (e.payload -> 'changes')::jsonb AS changes,
    s.fields,
    s.version,
    e.request_id
FROM chronolake.schema_version s
JOIN chronolake.lake_table t ON t.table_id = s.table_id
JOIN chronolake.clock c ON c.table_id = s.table_id
JOIN chronolake.event e ON e.table_id = s.table_id AND e.version = s.version;

COMMENT ON VIEW chronolake.audit_schemas IS
    'Every version of the schema of each table: the time, the actor, the changes, and all columns.';
