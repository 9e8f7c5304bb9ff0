-- The files that were live when the instant completed that a savepoint pins.
SELECT named.savepoint, f.partition_path, f.file_id, f.file_name, f.kind, micros(f.requested_time)
FROM unnest(%(savepoints)s::bigint[], %(targets)s::bigint[]) AS named (savepoint, target)
JOIN instant i ON i.table_id = %(table_id)s AND i.requested_time = moment(named.target)
JOIN file f
    ON f.table_id = i.table_id
    AND f.live_from <= coalesce(i.completion_time, i.undone_completion_time)
    AND (f.superseded_at IS NULL OR f.superseded_at > coalesce(i.completion_time, i.undone_completion_time))
ORDER BY named.savepoint, f.partition_path, f.file_id, f.completion_time, f.file_name
