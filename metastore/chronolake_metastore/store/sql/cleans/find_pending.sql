-- The pending clean of a table whose plan the server made, if there is one.
SELECT {instant}
FROM lake_table t
JOIN instant i ON i.table_id = t.table_id
WHERE t.namespace = %(namespace)s::text
    AND t.name = %(name)s::text
    AND t.dropped_at IS NULL
    AND i.state IN ('requested', 'inflight')
    AND i.action = 'clean'
    AND i.plan ? 'cleaned_before'
ORDER BY i.requested_time
LIMIT 1
