-- As tables/readable.sql, in the order of ids: all tables of the ranges are read.
SELECT named.table_id
FROM {ranges}
CROSS JOIN LATERAL (
    SELECT t.table_id
    FROM lake_table t
    WHERE t.dropped_at IS NULL AND {in_range}
    ORDER BY t.namespace, t.name
    OFFSET 0
) AS named
WHERE named.table_id > %(after)s
ORDER BY named.table_id
LIMIT %(limit)s
