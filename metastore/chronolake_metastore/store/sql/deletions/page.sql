-- A page of the files of an instant that were reported deleted, each once.
SELECT DISTINCT d.partition_path, d.file_name
FROM deleted_file d
WHERE d.table_id = %(table_id)s
    AND d.requested_time = moment(%(requested_time)s)
    AND (d.partition_path, d.file_name) > (%(after_partition)s, %(after_file)s)
ORDER BY d.partition_path, d.file_name
LIMIT %(files)s
