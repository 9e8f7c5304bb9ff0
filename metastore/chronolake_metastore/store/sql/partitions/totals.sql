-- The partitions in a range of paths that had live files as of a completion time, with their totals. The query has two
-- parts, as files/snapshot.sql.
SELECT
    partition_path,
    count(DISTINCT file_id),
    count(*),
    sum(size_bytes),
    coalesce(sum(records) FILTER (WHERE kind = 'base'), 0)
FROM (
    SELECT f.partition_path, f.file_id, f.kind, f.size_bytes, f.records
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.superseded_at IS NULL
        AND f.live_from <= moment(%(as_of)s)
        AND (%(after)s::text IS NULL OR f.partition_path > %(after)s)
        AND (%(last)s::text IS NULL OR f.partition_path <= %(last)s)
    UNION ALL
    SELECT f.partition_path, f.file_id, f.kind, f.size_bytes, f.records
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.superseded_at > moment(%(as_of)s)
        AND f.live_from <= moment(%(as_of)s)
        AND (%(after)s::text IS NULL OR f.partition_path > %(after)s)
        AND (%(last)s::text IS NULL OR f.partition_path <= %(last)s)
) AS live
GROUP BY partition_path
ORDER BY partition_path
LIMIT %(partitions)s
