-- The plans that wait for an executor: requested rollbacks, and requested cleans that the server planned. A clean without
-- a plan of the server is left out: only its writer knows its files. The plan with the oldest last event comes first, so
-- a plan that failed and was returned comes after those that were not tried since. The first condition on the state is
-- that of the index of pending instants, which are few.
SELECT
    t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
    t.definition ->> 'tick', i.action, micros(i.requested_time), micros(coalesce(i.target, i.requested_time)),
    i.plan::text
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
JOIN event e ON e.table_id = i.table_id AND e.version = i.version
WHERE i.state IN ('requested', 'inflight')
    AND i.state = 'requested'
    AND (i.action = 'rollback' OR (i.action = 'clean' AND i.plan ->> 'cleaned_before' IS NOT NULL))
    AND t.dropped_at IS NULL
    AND t.table_id <> ALL (%(left_out)s::uuid[])
ORDER BY e.time, i.requested_time
LIMIT %(limit)s
