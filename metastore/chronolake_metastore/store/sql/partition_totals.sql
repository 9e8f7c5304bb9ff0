-- The partition paths, behind one and up to another, that had live files as of a completion time, with their totals. In two
-- parts, as in snapshot.sql.
SELECT
    partition_path,
    count(DISTINCT file_id),
    count(*),
    CAST(sum(size_bytes) AS bigint),
    CAST(coalesce(sum(records) FILTER (WHERE kind = 'base'), 0) AS bigint)
FROM (
    SELECT f.partition_path, f.file_id, f.kind, f.size_bytes, f.records
    FROM file f
    WHERE f.table_id = :table_id
        AND f.superseded_at IS NULL
        AND f.live_from <= moment(:as_of)
        AND (CAST(:after AS text) IS NULL OR f.partition_path > :after)
        AND (CAST(:last AS text) IS NULL OR f.partition_path <= :last)
    UNION ALL
    SELECT f.partition_path, f.file_id, f.kind, f.size_bytes, f.records
    FROM file f
    WHERE f.table_id = :table_id
        AND f.superseded_at > moment(:as_of)
        AND f.live_from <= moment(:as_of)
        AND (CAST(:after AS text) IS NULL OR f.partition_path > :after)
        AND (CAST(:last AS text) IS NULL OR f.partition_path <= :last)
) AS live
GROUP BY partition_path
ORDER BY partition_path
LIMIT :partitions
