-- The dropped tables that published files, with the normal forms of their base paths, in the order of their ids. Base paths
-- that another table took over are among them: the files may still exist.
SELECT t.table_id, t.namespace || '.' || t.name, b.key
FROM lake_table t
JOIN base_path b ON b.table_id = t.table_id
WHERE t.dropped_at IS NOT NULL
    AND b.key IS NOT NULL
    AND t.table_id > %(after)s
    AND EXISTS (SELECT FROM file f WHERE f.table_id = t.table_id)
ORDER BY t.table_id
LIMIT %(limit)s
