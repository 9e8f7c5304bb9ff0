-- Of the named files, those that were reported deleted for the instant. OFFSET 0 makes the planner look them up name by
-- name.
SELECT n.partition_path, n.file_name
FROM unnest(%(partition_paths)s::text[], %(file_names)s::text[]) AS n (partition_path, file_name)
WHERE EXISTS (
    SELECT
    FROM deleted_file d
    WHERE d.table_id = %(table_id)s
        AND d.requested_time = moment(%(requested_time)s)
        AND d.partition_path = n.partition_path
        AND d.file_name = n.file_name
    OFFSET 0
)
