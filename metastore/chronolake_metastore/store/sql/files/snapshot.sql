-- The files in the slices of a range of file groups as of a completion time. The query has two parts, each with its own
-- index: the files that are still live, and those that were superseded later. So the cost of the latest snapshot depends
-- on the live files only, not on the history.
SELECT {file}
FROM (
    SELECT *
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.superseded_at IS NULL
        AND f.live_from <= moment(%(as_of)s)
        AND (f.partition_path, f.file_id) > (%(after_partition)s, %(after_file_id)s)
        AND (%(last_partition)s::text IS NULL OR (f.partition_path, f.file_id) <= (%(last_partition)s, %(last_file_id)s))
        AND (%(partition_path)s::text IS NULL OR f.partition_path = %(partition_path)s)
        AND (%(kind)s::text IS NULL OR f.kind = %(kind)s)
    UNION ALL
    SELECT *
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.superseded_at > moment(%(as_of)s)
        AND f.live_from <= moment(%(as_of)s)
        AND (f.partition_path, f.file_id) > (%(after_partition)s, %(after_file_id)s)
        AND (%(last_partition)s::text IS NULL OR (f.partition_path, f.file_id) <= (%(last_partition)s, %(last_file_id)s))
        AND (%(partition_path)s::text IS NULL OR f.partition_path = %(partition_path)s)
        AND (%(kind)s::text IS NULL OR f.kind = %(kind)s)
) AS f
ORDER BY f.partition_path, f.file_id, f.kind, f.completion_time, f.file_name
