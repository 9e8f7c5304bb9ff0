-- The files of the slices that file groups had as of a completion time, of the groups behind one and up to another: those
-- that are live still, and those that were superseded since. In two parts, each with an index of its own: the latest
-- snapshot then costs what is live, however much there has been.
SELECT {file}
FROM (
    SELECT *
    FROM file f
    WHERE f.table_id = :table_id
        AND f.superseded_at IS NULL
        AND f.live_from <= moment(:as_of)
        AND (f.partition_path, f.file_id) > (:after_partition, :after_file_id)
        AND (CAST(:last_partition AS text) IS NULL OR (f.partition_path, f.file_id) <= (:last_partition, :last_file_id))
        AND (CAST(:partition_path AS text) IS NULL OR f.partition_path = :partition_path)
        AND (CAST(:kind AS text) IS NULL OR f.kind = :kind)
    UNION ALL
    SELECT *
    FROM file f
    WHERE f.table_id = :table_id
        AND f.superseded_at > moment(:as_of)
        AND f.live_from <= moment(:as_of)
        AND (f.partition_path, f.file_id) > (:after_partition, :after_file_id)
        AND (CAST(:last_partition AS text) IS NULL OR (f.partition_path, f.file_id) <= (:last_partition, :last_file_id))
        AND (CAST(:partition_path AS text) IS NULL OR f.partition_path = :partition_path)
        AND (CAST(:kind AS text) IS NULL OR f.kind = :kind)
) AS f
ORDER BY f.partition_path, f.file_id, f.kind, f.completion_time, f.file_name
