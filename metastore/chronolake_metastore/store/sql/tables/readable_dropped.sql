-- As tables/dropped.sql, of the tables whose last names are in one of the ranges.
SELECT dropped.table_id, dropped.name, b.key
FROM {ranges}
CROSS JOIN LATERAL (
    SELECT t.table_id, t.namespace || '.' || t.name AS name
    FROM lake_table t
    WHERE t.dropped_at IS NOT NULL AND {in_range}
    ORDER BY t.namespace, t.name
    OFFSET 0
) AS dropped
JOIN base_path b ON b.table_id = dropped.table_id
WHERE b.key IS NOT NULL
    AND dropped.table_id > %(after)s
    AND EXISTS (SELECT FROM file f WHERE f.table_id = dropped.table_id)
ORDER BY dropped.table_id
LIMIT %(limit)s
