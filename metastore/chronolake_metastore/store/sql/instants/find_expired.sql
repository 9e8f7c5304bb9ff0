-- Instants of live tables whose lease has ended, the longest ago first, and whether the plan of each resizes its table.
SELECT
    t.namespace || '.' || t.name, t.definition->>'tick', micros(i.requested_time), i.action, i.state, i.writer,
    steady_us() - micros(i.lease_expires_at), coalesce(i.plan->>'buckets', '') <> ''
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
-- A subquery: a volatile function in the condition would rule the index out.
WHERE i.lease_expires_at <= (SELECT moment(steady_us())) AND t.dropped_at IS NULL
ORDER BY i.lease_expires_at
LIMIT %(limit)s
