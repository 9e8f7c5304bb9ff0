-- The partition paths in which a table has or had files, from a path on. The first ones may be skipped, and the number
-- may be bounded. Each path is one index lookup: the cost grows with the number of partitions, not with that of files.
-- With completed_by, only those in which it had files by that completion time.
WITH RECURSIVE path (partition_path) AS (
    (
        SELECT f.partition_path
        FROM file f
        WHERE f.table_id = %(table_id)s AND f.partition_path >= %(first)s
        ORDER BY f.partition_path
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT f.partition_path
        FROM file f
        WHERE f.table_id = %(table_id)s AND f.partition_path > path.partition_path
        ORDER BY f.partition_path
        LIMIT 1
    )
    FROM path
    WHERE path.partition_path IS NOT NULL
)
SELECT partition_path
FROM path
WHERE partition_path IS NOT NULL
    AND (
        %(completed_by)s::bigint IS NULL
        OR EXISTS (
            SELECT
            FROM file f
            WHERE f.table_id = %(table_id)s
                AND f.partition_path = path.partition_path
                AND f.completion_time <= moment(%(completed_by)s::bigint)
            OFFSET 0
        )
    )
OFFSET %(skip)s
LIMIT %(number)s::bigint
