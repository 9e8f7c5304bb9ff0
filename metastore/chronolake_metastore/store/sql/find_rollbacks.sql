-- The rollbacks, or restores, that undid the named instants.
SELECT
    i.table_id, micros(i.requested_time), i.action, i.operation, i.state, i.writer, i.lease_seconds,
    micros(i.lease_expires_at), i.version, micros(i.completion_time), i.rollback_reason, i.summary::text,
    i.extra_metadata::text, micros(i.target), micros(i.rolled_back_by), i.plan::text
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(requested_times)s::bigint[])
    AS named (namespace, name, requested_time)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN instant undone ON undone.table_id = t.table_id AND undone.requested_time = moment(named.requested_time)
JOIN instant i ON i.table_id = t.table_id AND i.requested_time = undone.rolled_back_by
