-- Of the log alone: the clocks, which have the heads too, are a projection of it. From table to table by the index,
-- so that it costs what there are tables, not events.
WITH RECURSIVE logs AS (
    (SELECT e.table_id FROM event e ORDER BY e.table_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.table_id FROM event e WHERE e.table_id > logs.table_id ORDER BY e.table_id LIMIT 1)
    FROM logs
    WHERE logs.table_id IS NOT NULL
)
SELECT t.namespace || '.' || t.name, logs.table_id, head.version, micros(head.time), head.hash
FROM logs
CROSS JOIN LATERAL (
    SELECT e.version, e.time, e.hash FROM event e WHERE e.table_id = logs.table_id ORDER BY e.version DESC LIMIT 1
) AS head
LEFT JOIN lake_table t ON t.table_id = logs.table_id
ORDER BY logs.table_id
