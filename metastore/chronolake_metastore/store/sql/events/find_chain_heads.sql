-- The last event of each table, read from the log: the clocks have these heads too, but are only a projection of it. The
-- query goes from table to table by the index, so its cost grows with the number of tables, not with that of events.
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
