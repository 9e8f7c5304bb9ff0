-- Those of some instants that are completed, and were not undone since.
SELECT micros(i.requested_time)
FROM unnest(%(requested_times)s::bigint[]) AS named (requested_time)
JOIN instant i ON i.table_id = %(table_id)s AND i.requested_time = moment(named.requested_time)
WHERE i.state = 'completed'
