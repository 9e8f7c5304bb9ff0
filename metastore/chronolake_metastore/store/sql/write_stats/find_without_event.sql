SELECT w.table_id, w.version, count(*)
FROM write_stat w
LEFT JOIN event e ON e.table_id = w.table_id AND e.version = w.version AND e.type IN ('InstantCompleted', 'WriteStatsStaged')
WHERE e.table_id IS NULL AND (%(table_id)s::uuid IS NULL OR w.table_id = %(table_id)s)
GROUP BY w.table_id, w.version
ORDER BY w.table_id, w.version
LIMIT %(limit)s
