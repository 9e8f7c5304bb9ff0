-- A page of the file groups that, as of a completion time, have files of instants requested up to a time, and were not
-- replaced by such an instant. Some of them may have no slice of that time, if their log files belong to a later base
-- file.
SELECT DISTINCT f.partition_path, f.file_id
FROM file f
WHERE f.table_id = %(table_id)s
    AND (f.partition_path, f.file_id) > (%(after_partition)s, %(after_file_id)s)
    AND (%(partition_path)s::text IS NULL OR f.partition_path = %(partition_path)s)
    AND f.requested_time <= moment(%(before_or_on)s)
    AND f.completion_time <= moment(%(as_of)s)
    AND (f.withdrawn_at IS NULL OR f.withdrawn_at > moment(%(as_of)s))
    AND NOT EXISTS (
        SELECT
        FROM replaced_group r
        WHERE (r.table_id, r.partition_path, r.file_id) = (f.table_id, f.partition_path, f.file_id)
            AND r.requested_time <= moment(%(before_or_on)s)
            AND r.replaced_at <= moment(%(as_of)s)
            AND (r.withdrawn_at IS NULL OR r.withdrawn_at > moment(%(as_of)s))
    )
ORDER BY f.partition_path, f.file_id
LIMIT %(groups)s
