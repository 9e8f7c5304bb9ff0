-- The partition paths with live files, the last ones first, up to a number. Each path is one index lookup: the cost grows
-- with the number of partitions, not with that of files.
WITH RECURSIVE path (partition_path) AS (
    (
        SELECT f.partition_path
        FROM file f
        WHERE f.table_id = %(table_id)s AND f.superseded_at IS NULL
        ORDER BY f.partition_path DESC
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT f.partition_path
        FROM file f
        WHERE f.table_id = %(table_id)s AND f.superseded_at IS NULL AND f.partition_path < path.partition_path
        ORDER BY f.partition_path DESC
        LIMIT 1
    )
    FROM path
    WHERE path.partition_path IS NOT NULL
)
SELECT partition_path
FROM path
WHERE partition_path IS NOT NULL
LIMIT %(number)s::bigint
