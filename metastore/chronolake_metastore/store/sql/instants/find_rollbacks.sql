-- The rollbacks or restores that undid the named instants.
SELECT {instant}
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(requested_times)s::bigint[])
    AS named (namespace, name, requested_time)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN instant undone ON undone.table_id = t.table_id AND undone.requested_time = moment(named.requested_time)
JOIN instant i ON i.table_id = t.table_id AND i.requested_time = undone.rolled_back_by
