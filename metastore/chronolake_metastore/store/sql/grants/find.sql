-- The grants of a subject, those on live tables with their present names.
SELECT g.subject, g.role, g.prefix, t.namespace || '.' || t.name, g.table_id, micros(g.granted_at), g.granted_by
FROM role_grant g
LEFT JOIN lake_table t ON t.table_id = g.table_id
WHERE g.subject = %(subject)s
ORDER BY g.key
LIMIT %(limit)s
