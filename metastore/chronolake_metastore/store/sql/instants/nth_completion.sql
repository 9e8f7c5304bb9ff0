-- When the n-th of the instants in a range completed. Instants that were undone later count too.
SELECT micros(done.completed)
FROM (
    SELECT i.completion_time AS completed
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.completion_time > moment(%(after)s)
        AND i.completion_time <= moment(%(until)s)
        AND i.action = ANY (%(actions)s)
    UNION ALL
    SELECT i.undone_completion_time
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.undone_completion_time > moment(%(after)s)
        AND i.undone_completion_time <= moment(%(until)s)
) AS done
ORDER BY done.completed
OFFSET %(nth)s - 1
LIMIT 1
