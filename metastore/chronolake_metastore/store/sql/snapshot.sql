-- A page of the file groups that were live as of a completion time, with the files of each one's slice.
WITH live AS (
    SELECT
        f.partition_path, f.file_id, f.file_name, f.kind, f.size_bytes, f.records, f.requested_time, f.completion_time
    FROM file f
    WHERE f.table_id = :table_id
        AND f.completion_time <= moment(:as_of)
        AND (f.superseded_at IS NULL OR f.superseded_at > moment(:as_of))
        AND (f.partition_path, f.file_id) > (:after_partition, :after_file_id)
        AND (CAST(:partition_path AS text) IS NULL OR f.partition_path = :partition_path)
),
page AS (
    SELECT DISTINCT partition_path, file_id
    FROM live
    ORDER BY partition_path, file_id
    LIMIT :groups
)
SELECT
    partition_path, file_id, file_name, kind, size_bytes, records, micros(requested_time), micros(completion_time)
FROM live
JOIN page USING (partition_path, file_id)
ORDER BY partition_path, file_id, kind, completion_time, file_name
