-- Of the named files, those that have no marker and were not reported deleted before. Markers and reports are those of
-- the instant, or of its target if it is a rollback. OFFSET 0 makes the planner look them up name by name, because the
-- tables grow faster than their statistics are collected.
SELECT n.partition_path, n.file_name
FROM lake_table t
JOIN instant i ON i.table_id = t.table_id AND i.requested_time = moment(%(requested_time)s)
CROSS JOIN LATERAL (
    SELECT CASE WHEN i.action = 'rollback' THEN i.target ELSE i.requested_time END AS requested_time
) AS marked_by
CROSS JOIN unnest(%(partition_paths)s::text[], %(file_names)s::text[]) AS n (partition_path, file_name)
WHERE t.namespace = %(namespace)s
    AND t.name = %(name)s
    AND t.dropped_at IS NULL
    AND NOT EXISTS (
        SELECT
        FROM marker m
        WHERE m.table_id = t.table_id
            AND m.requested_time = marked_by.requested_time
            AND m.partition_path = n.partition_path
            AND m.file_name = n.file_name
        OFFSET 0
    )
    AND NOT EXISTS (
        SELECT
        FROM deleted_file d
        WHERE d.table_id = t.table_id
            AND d.requested_time = marked_by.requested_time
            AND d.partition_path = n.partition_path
            AND d.file_name = n.file_name
        OFFSET 0
    )
ORDER BY n.partition_path, n.file_name
