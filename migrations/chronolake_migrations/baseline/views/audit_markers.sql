CREATE VIEW chronolake.audit_markers AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    m.table_id,
    m.requested_time,
    chronolake.instant_time(m.requested_time, c.tick_us) AS requested_digits,
    i.state,
    i.writer,
    m.partition_path,
    m.file_name,
    m.kind,
    m.created_at
FROM chronolake.marker m
JOIN chronolake.lake_table t ON t.table_id = m.table_id
JOIN chronolake.clock c ON c.table_id = m.table_id
LEFT JOIN chronolake.instant i ON i.table_id = m.table_id AND i.requested_time = m.requested_time;

COMMENT ON VIEW chronolake.audit_markers IS
    'The data files that each instant may have written, until its markers are deleted.';
