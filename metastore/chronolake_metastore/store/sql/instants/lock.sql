-- Lock instants, so that no other transaction ends them; see markers/create.sql.
SELECT i.requested_time
FROM lake_table t
JOIN instant i ON i.table_id = t.table_id AND i.requested_time = ANY (
    ARRAY(SELECT moment(named) FROM unnest(%(requested_times)s::bigint[]) AS named)
)
WHERE t.namespace = %(namespace)s AND t.name = %(table)s AND t.dropped_at IS NULL
ORDER BY i.table_id, i.requested_time
FOR NO KEY UPDATE OF i
