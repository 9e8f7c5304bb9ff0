-- The first published commits on the active timeline, by their requested times.
SELECT micros(i.requested_time), micros(i.completion_time)
FROM instant i
WHERE i.table_id = %(table_id)s
    AND i.requested_time >= moment(%(begin)s)
    AND i.state = 'completed'
    AND i.action IN ('commit', 'deltacommit', 'replacecommit')
    AND i.completion_time <= moment(%(published)s)
ORDER BY i.requested_time
LIMIT %(limit)s
