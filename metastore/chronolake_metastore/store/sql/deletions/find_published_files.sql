-- Of the named files, which have the time of the instant in their names, those that were published; without
-- those that restores have withdrawn, unless they count too. OFFSET 0 makes the
-- planner look them up name by name.
SELECT n.partition_path, n.file_name
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[], %(file_names)s::text[])
    AS n (partition_path, file_id, file_name)
WHERE EXISTS (
    SELECT
    FROM file f
    WHERE f.table_id = %(table_id)s::uuid
        AND f.partition_path = n.partition_path
        AND f.file_id = n.file_id
        -- The name of a log file of table version 6 has an earlier time than the instant that published it.
        AND f.requested_time >= moment(%(requested_time)s)
        AND f.file_name = n.file_name
        AND (%(withdrawn)s::boolean OR f.withdrawn_at IS NULL)
    OFFSET 0
)
ORDER BY n.partition_path, n.file_name
