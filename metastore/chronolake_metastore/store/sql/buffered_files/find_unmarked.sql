-- Of the named files, those without a marker, if the completion of the instant compares its markers: the table requires
-- them, or the instant has had some. A reported deletion removes the marker of its file. OFFSET 0 makes the planner look
-- markers up name by name.
SELECT n.partition_path, n.file_name
FROM unnest(%(partition_paths)s::text[], %(file_names)s::text[]) AS n (partition_path, file_name)
WHERE (
        %(are_required)s::boolean
        OR EXISTS (
            SELECT
            FROM marker m
            WHERE m.table_id = %(table_id)s::uuid AND m.requested_time = moment(%(requested_time)s)
        )
        OR EXISTS (
            SELECT
            FROM deleted_file d
            WHERE d.table_id = %(table_id)s::uuid AND d.requested_time = moment(%(requested_time)s)
        )
    )
    AND NOT EXISTS (
        SELECT
        FROM marker m
        WHERE m.table_id = %(table_id)s::uuid
            AND m.requested_time = moment(%(requested_time)s)
            AND m.partition_path = n.partition_path
            AND m.file_name = n.file_name
        OFFSET 0
    )
