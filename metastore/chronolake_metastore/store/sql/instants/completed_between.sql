-- The writes that completed in a range and were not undone by its end. Writes that were undone later are included.
SELECT micros(done.requested_time), micros(done.completed)
FROM (
    SELECT i.requested_time, i.completion_time AS completed
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.completion_time > moment(%(after)s)
        AND i.completion_time <= moment(%(until)s)
        AND i.action = ANY (%(actions)s)
    UNION ALL
    SELECT i.requested_time, i.undone_completion_time
    FROM instant i
    JOIN instant restore ON restore.table_id = i.table_id AND restore.requested_time = i.rolled_back_by
    WHERE i.table_id = %(table_id)s
        AND i.undone_completion_time > moment(%(after)s)
        AND i.undone_completion_time <= moment(%(until)s)
        AND restore.completion_time > moment(%(until)s)
) AS done
ORDER BY done.completed
LIMIT %(limit)s
