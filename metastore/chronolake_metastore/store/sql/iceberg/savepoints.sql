-- The newest savepoints that are not released, each with the completion time of the instant that it pins.
SELECT micros(savepoint.requested_time), micros(i.completion_time)
FROM instant savepoint
JOIN instant i ON i.table_id = savepoint.table_id AND i.requested_time = savepoint.target
WHERE savepoint.table_id = %(table_id)s
    AND savepoint.action = 'savepoint'
    AND savepoint.state = 'completed'
    AND i.completion_time IS NOT NULL
ORDER BY savepoint.requested_time DESC
LIMIT %(limit)s
