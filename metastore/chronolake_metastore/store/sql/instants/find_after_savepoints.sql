-- The instants that a restore to the named savepoints needs: pending instants and whether they have markers, the pinned
-- instants, the writes that completed after them, and the savepoints themselves.
SELECT
    {instant},
    CASE
        WHEN i.completion_time IS NULL
        THEN EXISTS (SELECT FROM marker m WHERE m.table_id = i.table_id AND m.requested_time = i.requested_time)
    END,
    false
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(requested_times)s::bigint[])
    AS named (namespace, name, requested_time)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN instant savepoint ON savepoint.table_id = t.table_id AND savepoint.requested_time = moment(named.requested_time)
JOIN instant saved ON saved.table_id = t.table_id AND saved.requested_time = savepoint.target
JOIN LATERAL (
    SELECT pending.*
    FROM instant pending
    WHERE pending.table_id = t.table_id AND pending.state IN ('requested', 'inflight')
    UNION ALL
    SELECT completed.*
    FROM instant completed
    WHERE completed.table_id = t.table_id
        AND completed.completion_time >= saved.completion_time
        AND completed.action IN ('commit', 'deltacommit', 'replacecommit')
) AS i ON true
UNION ALL
SELECT {instant}, NULL, false
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(requested_times)s::bigint[])
    AS named (namespace, name, requested_time)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN instant i ON i.table_id = t.table_id AND i.requested_time = moment(named.requested_time)
