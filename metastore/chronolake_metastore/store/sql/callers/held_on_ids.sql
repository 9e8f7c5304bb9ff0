-- The roles of subjects on tables by their ids.
SELECT g.subject, g.role, NULL, t.namespace || '.' || t.name, t.table_id
FROM lake_table t
JOIN role_grant g ON g.subject = ANY (%(subjects)s::text[]) AND g.key = 'table:' || t.table_id
WHERE t.table_id = ANY (%(table_ids)s::uuid[])
