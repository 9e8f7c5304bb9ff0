-- A page of an instant's markers.
SELECT m.partition_path, m.file_name, m.kind
FROM marker m
WHERE m.table_id = :table_id
    AND m.requested_time = moment(:requested_time)
    AND (m.partition_path, m.file_name, m.kind) > (:after_partition, :after_file, :after_kind)
ORDER BY m.partition_path, m.file_name, m.kind
LIMIT :markers
