-- The files that were live in the file groups of a plan when it was requested. The file groups of plans before the first
-- event that PostgreSQL has are given.
SELECT micros(e.instant), f.partition_path, f.file_id, f.file_name, f.kind, micros(f.requested_time)
FROM (
    SELECT e.instant, e.ordinal, e.partition_path, e.name
    FROM unnest(%(instants)s::bigint[]) AS named (instant)
    JOIN event_entry e
        ON e.table_id = %(table_id)s
        AND e.instant = moment(named.instant)
        AND e.list = 'plan-file-groups'
        AND e.version >= %(first_version)s
    UNION ALL
    SELECT moment(a.instant), a.ordinal, a.partition_path, a.name
    FROM json_to_recordset(%(archived)s::text::json)
        AS a (instant bigint, ordinal int, partition_path text, name text)
) AS e
JOIN file f
    ON (f.table_id, f.partition_path, f.file_id) = (%(table_id)s, e.partition_path, e.name)
    AND f.live_from <= e.instant
    AND (f.superseded_at IS NULL OR f.superseded_at > e.instant)
ORDER BY e.instant, e.ordinal, f.completion_time, f.file_name
