-- The roles of subjects on tables within named namespaces, and on beginnings of the names there.
SELECT g.subject, g.role, NULL, t.namespace || '.' || t.name, t.table_id
FROM role_grant g
JOIN lake_table t ON t.table_id = g.table_id
WHERE g.subject = ANY (%(subjects)s::text[])
    AND EXISTS (
        SELECT FROM unnest(%(starts)s::text[]) AS named (text)
        WHERE starts_with(t.namespace || '.' || t.name, named.text)
    )
UNION ALL
SELECT g.subject, g.role, g.prefix, NULL, NULL
FROM role_grant g
WHERE g.subject = ANY (%(subjects)s::text[])
    AND g.prefix IS NOT NULL
    AND EXISTS (SELECT FROM unnest(%(starts)s::text[]) AS named (text) WHERE starts_with(g.prefix, named.text))
