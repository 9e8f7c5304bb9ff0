-- The instant that had replaced a file group as of a completion time.
SELECT
    r.partition_path, r.file_id, micros(r.requested_time), micros(r.replaced_at), i.action, i.operation
FROM replaced_group r
JOIN instant i USING (table_id, requested_time)
WHERE r.table_id = %(table_id)s
    AND r.partition_path = %(partition_path)s
    AND r.file_id = %(file_id)s
    AND r.replaced_at <= moment(%(as_of)s)
    AND (r.withdrawn_at IS NULL OR r.withdrawn_at > moment(%(as_of)s))
