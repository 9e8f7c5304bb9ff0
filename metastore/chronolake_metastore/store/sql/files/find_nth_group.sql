-- The n-th file group after a given one that was live as of a completion time: the end of a page of n file groups. Each of
-- the two parts reads n groups from an ordered index, so the query does not read all groups that follow.
SELECT partition_path, file_id
FROM (
    (
        SELECT DISTINCT f.partition_path, f.file_id
        FROM file f
        WHERE f.table_id = %(table_id)s
            AND f.superseded_at IS NULL
            AND f.live_from <= moment(%(as_of)s)
            AND (f.partition_path, f.file_id) > (%(after_partition)s, %(after_file_id)s)
            AND (%(partition_paths)s::text[] IS NULL OR f.partition_path = ANY (%(partition_paths)s))
            AND (%(kind)s::text IS NULL OR f.kind = %(kind)s)
        ORDER BY f.partition_path, f.file_id
        LIMIT %(nth)s
    )
    UNION
    (
        SELECT DISTINCT f.partition_path, f.file_id
        FROM file f
        WHERE f.table_id = %(table_id)s
            AND f.superseded_at > moment(%(as_of)s)
            AND f.live_from <= moment(%(as_of)s)
            AND (f.partition_path, f.file_id) > (%(after_partition)s, %(after_file_id)s)
            AND (%(partition_paths)s::text[] IS NULL OR f.partition_path = ANY (%(partition_paths)s))
            AND (%(kind)s::text IS NULL OR f.kind = %(kind)s)
        ORDER BY f.partition_path, f.file_id
        LIMIT %(nth)s
    )
) AS live
ORDER BY partition_path, file_id
OFFSET %(nth)s - 1
LIMIT 1
