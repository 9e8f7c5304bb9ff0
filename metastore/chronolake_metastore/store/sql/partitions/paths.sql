-- The partition paths in which a table has or had files, from a path on. The first ones may be skipped, and the number
-- may be bounded. Each path is one index lookup: the cost grows with the number of partitions, not with that of files.
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
OFFSET %(skip)s
LIMIT %(number)s::bigint
