-- A page of the file groups that were replaced as of a completion time, each with the instant that replaced it.
-- Replacements that a restore had undone by then do not count.
SELECT
    r.partition_path, r.file_id, micros(r.requested_time), micros(r.replaced_at), i.action, i.operation
FROM replaced_group r
JOIN instant i USING (table_id, requested_time)
WHERE r.table_id = %(table_id)s
    AND r.replaced_at <= moment(%(as_of)s)
    AND (r.withdrawn_at IS NULL OR r.withdrawn_at > moment(%(as_of)s))
    AND (r.partition_path, r.file_id) > (%(after_partition)s, %(after_file_id)s)
ORDER BY r.partition_path, r.file_id
LIMIT %(groups)s
