-- The files that were live in the file groups of a plan when it was requested.
SELECT micros(e.instant), f.partition_path, f.file_id, f.file_name, f.kind, micros(f.requested_time)
FROM unnest(%(instants)s::bigint[]) AS named (instant)
JOIN event_entry e
    ON e.table_id = %(table_id)s AND e.instant = moment(named.instant) AND e.list = 'plan-file-groups'
JOIN file f
    ON (f.table_id, f.partition_path, f.file_id) = (e.table_id, e.partition_path, e.name)
    AND f.live_from <= e.instant
    AND (f.superseded_at IS NULL OR f.superseded_at > e.instant)
ORDER BY e.instant, e.ordinal, f.completion_time, f.file_name
