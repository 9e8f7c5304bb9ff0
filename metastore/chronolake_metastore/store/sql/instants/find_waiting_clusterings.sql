-- The clusterings of a table that wait for an executor and give records an order, with their marks (see find.sql). The index
-- of pending instants has them all, and a file group is in one of them at most.
SELECT
    {instant},
    EXISTS (SELECT FROM marker m WHERE m.table_id = i.table_id AND m.requested_time = i.requested_time),
    EXISTS (SELECT FROM deleted_file d WHERE d.table_id = i.table_id AND d.requested_time = i.requested_time)
FROM lake_table t
JOIN instant i ON i.table_id = t.table_id
WHERE t.namespace = %(namespace)s::text
    AND t.name = %(name)s::text
    AND t.dropped_at IS NULL
    AND i.state IN ('requested', 'inflight')
    AND i.state = 'requested'
    AND i.operation = 'cluster'
    AND i.plan -> 'details' ? 'hoodie.clustering.plan.strategy.sort.columns'
ORDER BY i.requested_time
