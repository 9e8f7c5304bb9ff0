-- Grants in the order of their subjects: those of the reader, and those on names that the reader may grant roles on.
SELECT g.key, g.subject, g.role, g.prefix, t.namespace || '.' || t.name, g.table_id, micros(g.granted_at), g.granted_by
FROM role_grant g
LEFT JOIN lake_table t ON t.table_id = g.table_id
WHERE (g.subject, g.key) > (%(after_subject)s, %(after_key)s)
    AND (%(subject)s::text IS NULL OR g.subject = %(subject)s)
    AND (
        %(all)s
        OR g.subject = %(reader)s
        OR EXISTS (
            SELECT FROM unnest(%(prefixes)s::text[]) AS granted (prefix)
            WHERE starts_with(coalesce(g.prefix, t.namespace || '.' || t.name), granted.prefix)
        )
        OR g.table_id = ANY (%(table_ids)s::uuid[])
    )
ORDER BY g.subject, g.key
LIMIT %(limit)s
