-- A page of the files of an instant that were reported deleted, each once, without those that it published later: the
-- second execution of a plan writes files of the same names as the first. The file id is taken from the name.
SELECT DISTINCT d.partition_path, d.file_name
FROM deleted_file d
WHERE d.table_id = %(table_id)s
    AND d.requested_time = moment(%(requested_time)s)
    AND (d.partition_path, d.file_name) > (%(after_partition)s, %(after_file)s)
    AND NOT EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = d.table_id
            AND f.partition_path = d.partition_path
            AND f.file_id = split_part(ltrim(d.file_name, '.'), '_', 1)
            AND f.requested_time >= d.requested_time
            AND f.file_name = d.file_name
        OFFSET 0
    )
ORDER BY d.partition_path, d.file_name
LIMIT %(files)s
