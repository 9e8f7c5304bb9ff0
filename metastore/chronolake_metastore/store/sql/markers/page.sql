-- A page of an instant's markers.
SELECT m.partition_path, m.file_name, m.kind
FROM marker m
WHERE m.table_id = %(table_id)s
    AND m.requested_time = moment(%(requested_time)s)
    AND (m.partition_path, m.file_name, m.kind) > (%(after_partition)s, %(after_file)s, %(after_kind)s)
ORDER BY m.partition_path, m.file_name, m.kind
LIMIT %(markers)s
