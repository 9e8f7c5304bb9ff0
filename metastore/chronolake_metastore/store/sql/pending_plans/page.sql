-- Rollbacks, and cleans that the server planned, which are requested and not in execution. Few instants are pending, and
-- these are among them. A clean without such a plan is left out: only its writer knows its files. The plan whose last
-- event is the oldest comes first, so a plan that was returned comes behind those that were not tried since.
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
