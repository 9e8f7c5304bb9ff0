-- The partition paths that a table has, or had, files in, from one on; so many after the first few, or all. One index
-- lookup each: the cost grows with the number of partitions, not of files.
WITH RECURSIVE found (partition_path) AS (
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
        WHERE f.table_id = %(table_id)s AND f.partition_path > found.partition_path
        ORDER BY f.partition_path
        LIMIT 1
    )
    FROM found
    WHERE found.partition_path IS NOT NULL
)
SELECT partition_path
FROM found
WHERE partition_path IS NOT NULL
OFFSET %(skip)s
LIMIT %(number)s::bigint
