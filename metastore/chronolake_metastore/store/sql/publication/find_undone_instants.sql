-- The instants that rollbacks and restores undid: newest completion first, as Hudi restores. An instant that was pending
-- when a restore began is that of its own rollback, if it had one. The plans of restores before the first event that
-- PostgreSQL has are given.
SELECT
    micros(undoing.requested_time), micros(i.requested_time), micros(i.undone_completion_time), i.action, i.operation
FROM unnest(%(requested_times)s::bigint[]) AS named (requested_time)
JOIN instant undoing ON undoing.table_id = %(table_id)s AND undoing.requested_time = moment(named.requested_time)
CROSS JOIN LATERAL (
    SELECT undoing.target AS requested_time
    WHERE undoing.action = 'rollback'
    UNION ALL
    SELECT moment(e.name::bigint)
    FROM event_entry e
    WHERE undoing.action = 'restore'
        AND e.table_id = undoing.table_id
        AND e.instant = undoing.requested_time
        AND e.list = 'plan-instants'
        AND e.version >= %(first_version)s
    UNION ALL
    SELECT moment(a.name::bigint)
    FROM json_to_recordset(%(archived)s::text::json) AS a (instant bigint, name text)
    WHERE a.instant = named.requested_time
) AS undone
JOIN instant i ON i.table_id = undoing.table_id AND i.requested_time = undone.requested_time
WHERE i.rolled_back_by = undoing.requested_time
ORDER BY undoing.requested_time, i.undone_completion_time DESC NULLS FIRST, i.requested_time DESC
