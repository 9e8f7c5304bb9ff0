-- The times at which instants completed in a range, from the n-th on. Instants that were undone later count too.
SELECT micros(done.completed)
FROM (
    SELECT i.completion_time AS completed
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.completion_time > moment(%(after)s)
        AND i.completion_time <= moment(%(until)s)
        AND i.action = ANY (%(actions)s)
        AND (%(since)s::bigint IS NULL OR i.requested_time >= moment(%(since)s::bigint))
    UNION ALL
    SELECT i.undone_completion_time
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.undone_completion_time > moment(%(after)s)
        AND i.undone_completion_time <= moment(%(until)s)
        AND (%(since)s::bigint IS NULL OR i.requested_time >= moment(%(since)s::bigint))
) AS done
ORDER BY done.completed
OFFSET %(first)s - 1
LIMIT %(limit)s
