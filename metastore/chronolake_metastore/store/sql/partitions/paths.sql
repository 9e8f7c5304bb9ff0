-- The partition paths that a table has, or had, files in, from one on; so many behind the first few, or all. From the index, a
-- look for each: as many rows as there are partitions, however many files there are.
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
