-- The restores of a table that completed in a range of times.
SELECT micros(i.requested_time), micros(i.completion_time)
FROM instant i
WHERE i.table_id = %(table_id)s
    AND i.completion_time > moment(%(after)s)
    AND i.completion_time <= moment(%(until)s)
    AND i.action = 'restore'
ORDER BY i.completion_time
LIMIT %(limit)s
