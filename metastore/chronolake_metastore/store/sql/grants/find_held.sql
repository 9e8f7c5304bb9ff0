-- The roles of subjects that concern names: on a beginning of one, on a named table, on a table by its id, or within a
-- named namespace.
SELECT g.subject, g.role, g.prefix, NULL::text, NULL::uuid
FROM role_grant g
WHERE g.subject = ANY (%(subjects)s::text[])
    AND g.prefix IS NOT NULL
    AND (
        EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS named (text) WHERE starts_with(named.text, g.prefix))
        OR EXISTS (SELECT FROM unnest(%(starts)s::text[]) AS named (text) WHERE starts_with(g.prefix, named.text))
    )
UNION ALL
SELECT g.subject, g.role, NULL, named.name, t.table_id
FROM unnest(%(tables)s::text[]) AS named (name)
CROSS JOIN LATERAL (
    SELECT live.table_id
    FROM lake_table live
    WHERE live.namespace = split_part(named.name, '.', 1) AND live.name = split_part(named.name, '.', 2)
        AND live.dropped_at IS NULL
    OFFSET 0
) AS t
JOIN role_grant g ON g.subject = ANY (%(subjects)s::text[]) AND g.key = 'table:' || t.table_id
UNION ALL
SELECT g.subject, g.role, NULL, t.namespace || '.' || t.name, t.table_id
FROM lake_table t
JOIN role_grant g ON g.subject = ANY (%(subjects)s::text[]) AND g.key = 'table:' || t.table_id
WHERE t.table_id = ANY (%(table_ids)s::uuid[])
UNION ALL
SELECT g.subject, g.role, NULL, t.namespace || '.' || t.name, t.table_id
FROM role_grant g
JOIN lake_table t ON t.table_id = g.table_id
WHERE cardinality(%(starts)s::text[]) > 0
    AND g.subject = ANY (%(subjects)s::text[])
    AND EXISTS (
        SELECT FROM unnest(%(starts)s::text[]) AS named (text)
        WHERE starts_with(t.namespace || '.' || t.name, named.text)
    )
