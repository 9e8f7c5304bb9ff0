-- The newest states of a copy-on-write table that it serves: one for each completed write and restore that is not undone.
-- Then those that savepoints pin, however old.
(
    SELECT micros(i.completion_time), micros(i.completion_time), micros(i.requested_time), i.operation
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.completion_time IS NOT NULL
        AND i.completion_time >= moment(coalesce(%(served_from)s::bigint, 0))
        AND i.action = ANY (%(actions)s)
    ORDER BY i.completion_time DESC
    LIMIT %(limit)s
)
UNION
SELECT micros(i.completion_time), micros(i.completion_time), micros(i.requested_time), i.operation
FROM instant savepoint
JOIN instant i ON i.table_id = savepoint.table_id AND i.requested_time = savepoint.target
WHERE savepoint.table_id = %(table_id)s
    AND savepoint.action = 'savepoint'
    AND savepoint.state = 'completed'
    AND i.completion_time IS NOT NULL
    AND i.action = ANY (%(actions)s)
ORDER BY 1
