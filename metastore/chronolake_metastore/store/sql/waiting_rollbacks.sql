-- Rollbacks that nobody executes. Few instants are pending, and these are among them.
SELECT
    t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
    t.definition ->> 'tick', micros(i.requested_time), micros(i.target), i.plan::text
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
WHERE i.state IN ('requested', 'inflight')
    AND i.state = 'requested'
    AND i.action = 'rollback'
    AND t.dropped_at IS NULL
    AND t.table_id <> ALL (CAST(:left_out AS uuid[]))
ORDER BY i.requested_time
LIMIT :limit
