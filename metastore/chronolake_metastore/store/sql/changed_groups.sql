-- A page of the file groups that instants completed in (after, until] wrote to.
SELECT DISTINCT f.partition_path, f.file_id
FROM file f
WHERE f.table_id = :table_id
    AND f.completion_time > moment(:after)
    AND f.completion_time <= moment(:until)
    AND (f.partition_path, f.file_id) > (:after_partition, :after_file_id)
ORDER BY f.partition_path, f.file_id
LIMIT :groups
