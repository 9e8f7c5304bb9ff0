SELECT d.table_id, d.version, count(*)
FROM deleted_file d
LEFT JOIN event e ON e.table_id = d.table_id AND e.version = d.version AND e.type = 'FilesDeleted'
WHERE e.table_id IS NULL AND (%(table_id)s::uuid IS NULL OR d.table_id = %(table_id)s)
GROUP BY d.table_id, d.version
ORDER BY d.table_id, d.version
LIMIT %(limit)s
